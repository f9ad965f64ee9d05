"""Streams over a log server in a thread: plans, restarts, losses, and what a query holds."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.spark.access import close_connections
from penstock.spark.errors import GroupTakenError, OptionError, SourceError
from penstock.spark.nodes import directory
from penstock.spark.read import retention_hold
from penstock.spark.read.stream import StreamReader
from penstock.spark.source_settings import SourceSettings
from tools.harness.fake_log_server import FakeLogServer

ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def leisure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done again after some seconds is not done meanwhile, however long a test takes."""
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", 1 << 62)
    monkeypatch.setattr(retention_hold, "_AGAIN_NS", 1 << 62)


def reader(server: FakeLogServer, **options: str) -> StreamReader:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60",
             "startingOffsets": "earliest", "group": "g", **options}  # fmt: skip
    return StreamReader(SourceSettings.parse(given), ("offset",))


def rows(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    # Tasks get a pickled copy.
    copy = pickle.loads(pickle.dumps(StreamReader(stream.settings, stream.columns)))
    partitions = pickle.loads(pickle.dumps(stream.partitions(start, end)))
    batches = [batch for each in partitions for batch in copy.read(each)]
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def first_batch(stream: StreamReader, limit: Any = ALL) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where a new query begins, and the end of its first batch."""
    start = stream.initialOffset()
    return start, stream.latestOffset(start, limit)


def test_the_group_holds_from_the_start_and_follows_what_is_committed(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server)
    start = stream.initialOffset()
    assert stream.initialOffset() == start
    assert server.groups["t"]["g"] == {"0": 0}
    end = stream.latestOffset(start, ALL)
    assert server.groups["t"]["g"] == {"0": 0}
    assert rows(stream, start, end) == list(range(10))
    assert stream.latestOffset(end, ALL) == end
    assert server.groups["t"]["g"] == {"0": 10}
    assert stream.reportLatestOffset() == end


class Stream(RuleBasedStateMachine):
    """A query that is ended and started again at any moment, over queues that grow and come."""

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeLogServer()
        self.server.__enter__()
        self.server.queue("t")
        self.stream = reader(self.server)
        self.at = self.stream.initialOffset()
        self.batches: list[tuple[dict[str, Any], dict[str, Any], list[int]]] = []
        self.count = 0

    @rule(queue=st.integers(0, 2), count=st.integers(1, 5))
    def append(self, queue: int, count: int) -> None:
        self.server.queue("t", queue).append([b"x"] * count)
        self.count += count

    @rule(limit=st.integers(1, 6))
    def batch(self, limit: int) -> None:
        end = self.stream.latestOffset(self.at, ReadMaxRows(limit))
        found = rows(self.stream, self.at, end)
        self.batches.append((self.at, end, found))
        assert len(found) <= max(limit, len(self.server.topics["t"]))  # each queue gets on
        self.at = end

    @rule()
    def restart(self) -> None:
        self.stream = reader(self.server)
        if self.batches:  # the last one may not have been finished
            start, end, found = self.batches[-1]
            assert rows(self.stream, start, end) == found

    @invariant()
    def what_was_not_read_is_held(self) -> None:
        held, reached = self.server.groups["t"]["g"], self.at["offsets"]["t"][self.server.node]
        assert all(offset <= reached.get(queue, 0) for queue, offset in held.items())

    def teardown(self) -> None:
        end = self.stream.latestOffset(self.at, ALL)
        rest = rows(self.stream, self.at, end)
        read = sorted(rest + [row for *_, found in self.batches for row in found])
        assert read == sorted(
            offset for queue in self.server.topics["t"].values() for offset in range(queue.end)
        )
        close_connections()
        self.server.__exit__(None, None, None)


TestStream = Stream.TestCase
TestStream.settings = settings(max_examples=20, stateful_step_count=20)


def test_a_limit_is_the_default_and_the_end_reported(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server, maxRecordsPerTrigger="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    _, end = first_batch(stream, ReadMaxRows(4))
    assert end["offsets"]["t"][server.node] == {"0": 4}
    told: Any = stream.reportLatestOffset()
    assert told["offsets"]["t"][server.node] == {"0": 10}


def test_available_now_does_not_wait_for_others_and_ends_where_it_was_told(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"x"] * 3)
    stream = reader(server, topic="*", minRecordsPerTrigger="4")
    stream.prepareForTriggerAvailableNow()
    server.queue("t").append([b"y"] * 5)
    start, end = first_batch(stream, stream.getDefaultReadLimit())
    assert rows(stream, start, end) == [0, 1, 2]
    server.queue("u").append([b"y"])  # a topic that is new
    stream.cluster._directory._looked_up_ns = -(1 << 62)
    assert stream.latestOffset(end, ALL) == end


def test_a_limit_of_bytes_and_small_splits(server: FakeLogServer) -> None:
    queue = server.queue("t")
    queue.append([b"x" * 500] * 100)
    limit = str(len(queue.batches[0]) // 4)
    stream = reader(server, maxBytesPerTrigger=limit, maxRecordsPerPartition="10")
    position, seen = stream.initialOffset(), []
    while (end := stream.latestOffset(position, stream.getDefaultReadLimit())) != position:
        assert len(stream.partitions(position, end)) == 3
        seen.append(len(rows(stream, position, end)))
        position = end
    assert seen == [25, 25, 25, 25]


@pytest.mark.parametrize("left", ["one of two", "the last"])
def test_available_now_reads_nodes_that_nsqlookupd_does_not_name_any_more(
    server: FakeLogServer, left: str
) -> None:
    given = {"topic": "t", "lookupd_http_address": server.address, "timeout": "60",
             "startingOffsets": "earliest"}  # fmt: skip

    def query() -> StreamReader:
        return StreamReader(SourceSettings.parse(given), ("offset",))

    with FakeLogServer() as other:
        for each in (server, other):
            each.queue("t").append([b"x"] * 10)
            server.producers.append(each.address)
        if left == "the last":
            server.producers.remove(other.address)
        start = query().initialOffset()
        server.producers.pop()
        again = query()
        again.prepareForTriggerAvailableNow()
        end = again.latestOffset(start, ALL)
        gone = server if left == "the last" else other
        assert end["offsets"]["t"][gone.node] == {"0": 10}
        gone.queue("t").append([b"y"])
        assert again.latestOffset(end, ALL) == end
    new = query()
    new.prepareForTriggerAvailableNow()
    if left == "the last":
        with pytest.raises(SourceError, match="no node with topic t is known to nsqlookupd"):
            new.initialOffset()


def test_a_group_of_its_own_is_kept_in_the_checkpoint(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    given = {"topic": "t", "nsqd_http_address": server.address}
    first = StreamReader(SourceSettings.parse(given), ("offset",)).initialOffset()
    again = StreamReader(SourceSettings.parse(given), ("offset",))
    assert again.latestOffset(first, ALL)["group"] == first["group"]
    assert list(server.groups["t"]) == [first["group"]]
    # Without startingOffsets a stream begins with what comes next, as Kafka's does.
    assert first["offsets"]["t"][server.node] == {"0": 1}
    assert first["group"].startswith("spark-")
    named = SourceSettings.parse({**given, "groupIdPrefix": "billing"})
    group = StreamReader(named, ("offset",)).initialOffset()["group"]
    assert group.startswith("billing-")
    assert group in server.groups["t"]


def test_a_commit_that_fails_does_not_end_the_query(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.queue("t").append([b"x"])
    stream = reader(server)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    server.delete("t")
    stream.commit(end)
    assert "group g was not moved: topic t on node" in caplog.text


def test_a_mistyped_node_and_a_checkpoint_of_another_source_are_refused(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"x"])
    stream = reader(server, startingOffsets='{"t": {"typo:4151": {"0": 0}}}')
    with pytest.raises(OptionError, match="startingOffsets names node typo:4151 for topic t, "):
        stream.initialOffset()
    assert server.groups == {}
    of_a_channel = {"staging": "0123456789abcdef", "file": 3}
    said = "offsets of another source than format nsq, which"
    with pytest.raises(SourceError, match=said):
        reader(server).latestOffset(of_a_channel, ALL)
    with pytest.raises(SourceError, match=said):
        reader(server).partitions(of_a_channel, of_a_channel)


# --- a first batch that comes again, for which Spark asks for the start once more -----------------


@pytest.mark.parametrize("more", [0, 20])
def test_the_first_batch_has_the_same_rows_again_wherever_the_log_ends_by_then(
    server: FakeLogServer, more: int
) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server, startingOffsets="latest")
    start = stream.initialOffset()
    server.queue("t").append([b"x"] * 5)
    end = stream.latestOffset(start, ALL)
    if more:
        server.queue("t").append([b"x"] * more)
    again = reader(server, startingOffsets="latest")
    other = again.initialOffset()
    assert other["offsets"]["t"][server.node] == {"0": 15 + more}
    # What is still to be read is held meanwhile.
    assert server.groups["t"]["g"]["0"] <= 10
    assert rows(stream, start, end) == rows(again, other, end) == list(range(10, 15))
    after = again.latestOffset(end, ALL)
    assert rows(again, end, after) == list(range(15, 15 + more))
    assert server.groups["t"]["g"] == {"0": 15}
    assert again.latestOffset(after, ALL) == after


def test_an_empty_first_batch_is_empty_again(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    options: list[dict[str, str]] = [{}, {"minRecordsPerTrigger": "100"}]
    for given in options:
        stream = reader(server, startingOffsets="latest", **given)
        start = stream.initialOffset()
        # Spark makes a batch of it, as it knows of no batch before.
        end = stream.latestOffset(start, ALL)
        assert end == start
        server.queue("t").append([b"x"] * 5)
        again = reader(server, startingOffsets="latest")
        assert rows(again, again.initialOffset(), end) == []
        after = again.latestOffset(end, ALL)
        last = server.queue("t").end
        assert rows(again, end, after) == list(range(last - 5, last))
        server.delete("t")
        server.queue("t").append([b"x"] * 10)


def test_a_first_batch_that_retention_has_reached_is_not_cut_short(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    server.queue("t").start = 4
    again = reader(server)
    with pytest.raises(SourceError, match=r"offset 0 of topic t .* is gone: .* starts at 4"):
        again.partitions(again.initialOffset(), end)


# --- a topic that was deleted and created again ---------------------------------------------------


def made_again(server: FakeLogServer, count: int) -> None:
    server.delete("t")
    queue = server.queue("t")
    if count:
        queue.append([b"new"] * count)


def test_a_topic_made_again_ends_the_query_and_its_group_stays_out_of_the_new_log(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"old"] * 10)
    stream = reader(server)
    position = stream.latestOffset(stream.initialOffset(), ALL)
    old = server.queue("t").log
    made_again(server, 50)
    restarted = reader(server)
    with pytest.raises(SourceError) as failed:
        restarted.latestOffset(position, ALL)
    new = server.queue("t").log
    said = f"offset 10 is of log {old}, the node has log {new} now"
    assert said in str(failed.value)
    assert server.groups == {}


@pytest.mark.parametrize("count", [50, 3, 0])
def test_without_fail_on_data_loss_the_new_log_is_read_from_its_start(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    server.queue("t").append([b"old"] * 10)
    stream = reader(server)
    _, position = first_batch(stream)
    made_again(server, count)
    restarted = reader(server, failOnDataLoss="false")
    end = restarted.latestOffset(position, ReadMaxRows(40))
    assert rows(restarted, position, end) == list(range(min(count, 40)))
    assert "offset 10 is of log" in caplog.text
    assert "it goes on at offset 0" in caplog.text
    after = restarted.latestOffset(end, ALL)
    assert rows(restarted, end, after) == list(range(40, count))
    assert server.groups["t"]["g"] == {"0": min(count, 40)}


def restored(server: FakeLogServer, first: int, end: int, kind: str = "-") -> None:
    """Put the log back to its first messages, and publish others up to ``end``."""
    queue = server.topics["t"][0]
    log, queue.log = queue.log, f"{queue.log}{kind}{first:x}.9f3a77c1"
    queue.batches, queue.firsts, queue.end = [], [], 0
    queue.append([b"old"] * first)
    queue.append([b"new"] * (end - first))
    assert log != queue.log


@pytest.mark.parametrize("stood", [15, 10, 8])
def test_a_node_that_was_restored_from_a_backup_is_told_and_read_from_where_it_went_back_to(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture, stood: int
) -> None:
    """15 messages were read of 20 that are not the same any more."""
    server.queue("t").append([b"old"] * 20)
    stream = reader(server)
    _, position = first_batch(stream, ReadMaxRows(stood))
    restored(server, 10, 20)
    with pytest.raises(SourceError) as failed:
        reader(server).latestOffset(position, ALL)
    goes_on = min(stood, 10)
    assert str(failed.value) == (
        f"node {server.node} was restored from a backup: topic t (queue 0) has other messages from "
        f"offset 10 on than before. It was read up to offset {stood}; what it had behind {goes_on} "
        "and was not read is lost. Set failOnDataLoss=false to read on from offset "
        f"{goes_on}"
    )
    again = reader(server, failOnDataLoss="false")
    end = again.latestOffset(position, ALL)
    assert rows(again, position, end) == list(range(goes_on, 20))
    assert caplog.messages[-1].endswith(f"it goes on at offset {goes_on}")
    # Its checkpoint knows now; it may be set back to true.
    after = reader(server)
    assert after.latestOffset(end, ALL) == end


def test_a_batch_that_was_planned_before_a_node_was_restored_is_read_up_to_there(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"old"] * 20)
    stream = reader(server)
    start, end = first_batch(stream, ReadMaxRows(15))
    restored(server, 10, 18)
    with pytest.raises(SourceError, match="was restored from a backup"):
        rows(reader(server), start, end)
    again = reader(server, failOnDataLoss="false")
    assert rows(again, start, end) == list(range(10))
    assert rows(again, end, again.latestOffset(end, ALL)) == list(range(10, 18))


def test_a_task_that_meets_a_node_restored_since_it_was_planned_fails(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"old"] * 20)
    stream = reader(server, failOnDataLoss="false")
    start = stream.initialOffset()
    (partition,) = stream.partitions(start, stream.latestOffset(start, ALL))
    restored(server, 10, 20)
    with pytest.raises(SourceError, match=r"was restored .* a batch was read: start the query"):
        list(stream.read(partition))


def test_a_copy_that_became_primary_is_an_error_for_those_alone_who_were_ahead_of_it(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"old"] * 20)
    stream = reader(server)
    start, ahead = first_batch(stream, ReadMaxRows(15))
    behind = reader(server).latestOffset(start, ReadMaxRows(10))
    restored(server, 10, 20, kind="~")
    with pytest.raises(SourceError, match=r"was replaced by a copy: .* read on from offset 10"):
        reader(server).latestOffset(ahead, ALL)
    again = reader(server)
    end = again.latestOffset(behind, ALL)
    assert rows(again, behind, end) == list(range(10, 20))


def test_a_node_under_another_name_goes_on_at_its_offsets(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server)
    start, end = first_batch(stream, ReadMaxRows(4))
    before, server.node = server.node, "renamed:4151"
    again = reader(server)
    later = again.latestOffset(end, ReadMaxRows(4))
    assert rows(again, end, later) == list(range(4, 8))
    assert later["offsets"] == {"t": {"renamed:4151": {"0": 8}}}
    assert caplog.messages == [
        f"node {before} calls itself renamed:4151 now: topic t (queue 0) is read on there, as it "
        "has the same log"
    ]
    # A batch that was planned with the name of before has the same rows.
    assert rows(reader(server), start, end) == list(range(4))
    again.commit(later)
    assert server.groups["t"]["g"] == {"0": 8}


def test_a_planned_batch_of_a_log_that_is_gone_is_skipped_whole(server: FakeLogServer) -> None:
    server.queue("t").append([b"old"] * 10)
    stream = reader(server)
    start, end = first_batch(stream)
    made_again(server, 50)
    with pytest.raises(SourceError, match="deleted and created again"):
        reader(server).partitions(start, end)
    restarted = reader(server, failOnDataLoss="false")
    assert rows(restarted, start, end) == []
    assert rows(restarted, end, restarted.latestOffset(end, ALL)) == list(range(50))


def test_a_planned_batch_of_a_topic_that_is_gone_from_a_node_is_an_error_or_skipped(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeLogServer() as other:
        for each in (server, other):
            each.queue("t").append([b"x"] * 10)
        both = {"nsqd_http_address": f"{server.address},{other.address}"}
        stream = reader(server, **both)
        start, end = first_batch(stream)
        other.delete("t")
        said = f"topic t (queue 0) was deleted on node {other.node}: offsets 0 to 10 were not read"
        with pytest.raises(SourceError, match=re.escape(said)):
            reader(server, **both).partitions(start, end)
        lenient = reader(server, **both, failOnDataLoss="false")
        assert rows(lenient, start, end) == list(range(10))
        assert caplog.messages == [f"{said} and are lost. Skipped, as failOnDataLoss=false"]
        assert lenient.latestOffset(end, ALL)["offsets"] == end["offsets"]


def test_a_checkpoint_without_ids_goes_on_or_back_to_the_start_when_its_offset_is_too_high(
    server: FakeLogServer,
) -> None:
    server.queue("t").append([b"x"] * 10)
    old = {"group": "g", "offsets": {"t": {server.node: {"0": 4}}}}
    stream = reader(server)
    end = stream.latestOffset(old, ALL)
    assert rows(stream, old, end) == list(range(4, 10))
    assert end["logs"]["t"][server.node] == {"0": server.queue("t").log}
    old["offsets"] = {"t": {server.node: {"0": 1000}}}
    with pytest.raises(SourceError, match=r"offset 1000 of topic t .* is beyond its end 10"):
        reader(server).latestOffset(old, ALL)
    stream = reader(server, failOnDataLoss="false")
    end = stream.latestOffset(old, ALL)
    server.queue("t").append([b"y"] * 2000)  # past the old offset before the batch is planned
    again = reader(server, failOnDataLoss="false")
    assert rows(again, old, end) == list(range(10))


def test_tasks_notice_a_topic_made_again_after_planning(server: FakeLogServer) -> None:
    server.queue("t").append([b"old"] * 10)
    for strict in ("true", "false"):
        stream = reader(server, failOnDataLoss=strict)
        start = stream.initialOffset()
        partitions = stream.partitions(start, stream.latestOffset(start, ALL))
        made_again(server, 50)
        copy = StreamReader(stream.settings, stream.columns)
        if strict == "false":
            assert [batch for each in partitions for batch in copy.read(each)] == []
            break
        with pytest.raises(SourceError, match="deleted and created again"):
            list(copy.read(partitions[0]))


# --- what a query holds ---------------------------------------------------------------------------


def test_a_batch_asks_each_node_once_for_offsets_and_once_to_commit(server: FakeLogServer) -> None:
    for topic in ("t", "u"):
        server.queue(topic).append([b"x"] * 10)
    stream = reader(server, topic="*")
    start, end = first_batch(stream)
    stream.partitions(start, end)
    stream.commit(end)
    del server.requests[:]
    server.queue("t").append([b"x"] * 10)
    after = stream.latestOffset(end, ALL)
    stream.partitions(end, after)
    stream.commit(after)
    assert server.requests == ["/log/offsets", "/log/commit"]


def test_an_idle_query_asks_what_has_changed_and_says_that_it_is_there(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        server.queue(f"t{number}").append([b"a"])
    stream = reader(server, topic="*")
    _, end = first_batch(stream)
    server.requests.clear()
    for _ in range(3):
        assert stream.latestOffset(end, ALL) == end
    assert server.requests.count("/log/offsets") == 0
    assert server.requests.count("/log/commit") == 1
    monkeypatch.setattr(retention_hold, "_AGAIN_NS", 0)
    assert stream.latestOffset(end, ALL) == end
    assert server.requests.count("/log/commit") == 2
    server.queue("t7").append([b"b"])
    assert stream.latestOffset(end, ALL) != end


def test_only_what_moved_is_committed(server: FakeLogServer) -> None:
    for topic in ("t", "u"):
        server.queue(topic).append([b"x"] * 10)
    stream = reader(server, topic="t,u")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stream.latestOffset(end, ALL)
    server.queue("u").append([b"y"])
    server.groups["t"]["g"] = {"0": 7}
    stream.latestOffset(stream.latestOffset(end, ALL), ALL)
    assert server.groups == {"t": {"g": {"0": 7}}, "u": {"g": {"0": 11}}}


def test_two_queries_with_one_group(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    first = reader(server)
    at = first.latestOffset(first.initialOffset(), ALL)
    # Both may start, neither has read anything.
    second = reader(server)
    other = second.latestOffset(second.initialOffset(), ALL)
    assert first.latestOffset(at, ALL) == at
    with pytest.raises(GroupTakenError, match="group g is in use by another query"):
        second.latestOffset(other, ALL)
    with pytest.raises(GroupTakenError, match="group g is in use by another query"):
        reader(server, startingOffsets="latest").initialOffset()
    assert server.groups["t"]["g"] == {"0": 10}


def test_a_restarted_query_is_no_other_query(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    first = reader(server)
    _, end = first_batch(first)
    # Ended before its first batch was done, so that Spark asks for the start again; and then after.
    again = reader(server)
    assert rows(again, again.initialOffset(), end) == list(range(10))
    for _ in range(2):
        again = reader(server)
        assert again.latestOffset(end, ALL) == end
    assert server.owners["t", "g"] == end["owner"]


def test_a_query_owns_its_group_once_that_is_in_its_checkpoint(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However often it commits: without a checkpoint it would be another owner after a restart.
    monkeypatch.setattr(retention_hold, "_AGAIN_NS", -1)
    server.queue("t").append([b"x"] * 10)
    stream = reader(server)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert server.owners == {}
    assert reader(server).initialOffset()["group"] == "g"
    stream.latestOffset(end, ALL)
    assert server.owners == {("t", "g"): end["owner"]}


def test_a_topic_that_is_not_read_any_more_gives_its_group_up(server: FakeLogServer) -> None:
    for topic in ("t", "u"):
        server.queue(topic).append([b"x"] * 10)
    both = reader(server, topic="t,u")
    end = both.latestOffset(both.initialOffset(), ALL)
    one = reader(server)
    after = one.latestOffset(end, ALL)
    assert server.groups == {"t": {"g": {"0": 10}}, "u": {}}
    # Named again it goes on where it was.
    assert after["offsets"] == end["offsets"]
    one.latestOffset(after, ALL)
    assert server.groups["u"] == {}


def test_a_group_of_another_name_takes_over(server: FakeLogServer) -> None:
    with pytest.raises(SourceError, match="topic t does not exist on node"):
        reader(server, failOnDataLoss="false").initialOffset()  # whatever may be lost
    server.queue("t").append([b"x"] * 10)
    _, end = first_batch(reader(server))
    reader(server, group="h").latestOffset(end, ALL)
    assert server.groups == {"t": {"h": {"0": 10}}}


def test_a_query_outlives_its_nsqlookupd(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    queue = server.queue("t")
    queue.append([b"x"] * 10)
    with FakeLogServer() as lookupd:
        lookupd.producers.append(server.address)
        given = {"topic": "t", "lookupd_http_address": lookupd.address, "timeout": "60"}
        given |= {"startingOffsets": "earliest", "group": "g"}
        stream = StreamReader(SourceSettings.parse(given), ("offset",))
        _, end = first_batch(stream)
    queue.append([b"x"] * 5)
    later = stream.latestOffset(end, ALL)
    assert rows(stream, end, later) == [10, 11, 12, 13, 14]
    (said,) = [each for each in caplog.messages if "nsqlookupd" in each]
    assert "no nsqlookupd answers for topic t: " in said
    assert server.groups["t"]["g"] == {"0": 10}


@pytest.mark.parametrize("unread", [0, 5])
@pytest.mark.parametrize("where", ["nsqd_http_address", "lookupd_http_address"])
def test_a_named_topic_that_is_deleted_ends_the_query_or_is_skipped_until_it_is_back(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    where: str, unread: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    server.producers.append(server.address)
    server.queue("t").append([b"x"] * 10)

    def query(**options: str) -> StreamReader:
        given = {"topic": "t", where: server.address, "timeout": "60", "group": "g",
                 "startingOffsets": "earliest", **options}  # fmt: skip
        return StreamReader(SourceSettings.parse(given), ("offset",))

    strict, loose = query(), query(failOnDataLoss="false")
    end = loose.latestOffset(loose.initialOffset(), ALL)
    assert strict.latestOffset(end, ALL) == end
    if unread:
        server.queue("t").append([b"x"] * unread)
    for each in (strict, loose):
        each.cluster.bounds()
    server.delete("t")
    server.producers.clear()  # a node that has deleted a topic tells nsqlookupd
    with pytest.raises(SourceError, match=r"topic t .*was deleted on node"):
        strict.latestOffset(end, ALL)
    assert loose.latestOffset(end, ALL) == end
    assert rows(loose, end, end) == []
    restarted = query(failOnDataLoss="false")
    restarted.prepareForTriggerAvailableNow()
    assert restarted.latestOffset(end, ALL) == end
    assert "was read up to offset 10 there" in caplog.text
    server.producers.append(server.address)
    server.queue("t").append([b"y"] * 3)
    again = loose.latestOffset(end, ALL)
    assert rows(loose, end, again) == [0, 1, 2]


def test_a_new_query_goes_on_where_its_group_stands(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    server.groups["t"] = {"g": {"0": 7}}
    stream = reader(server, startingOffsets="group")
    start = stream.initialOffset()
    assert rows(stream, start, stream.latestOffset(start, ALL)) == [7, 8, 9]
    server.groups["t"] = {}
    with pytest.raises(SourceError, match="topic t has no group g"):
        reader(server, startingOffsets="group").initialOffset()
    assert server.groups["t"] == {}, "the refused query makes no group"
