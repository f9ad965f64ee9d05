"""Readers over a log server in a thread: positions, batches, splits, and the group they hold."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import HOUR
from penstock.log_api.errors import NodeUnreachable
from penstock.log_api.log_client import LogClient
from penstock.nsq.client.blocking import Producer
from penstock.spark.access import close_connections
from penstock.spark.errors import GroupTakenError, LostError, OptionError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Offsets, Place, Position
from penstock.spark.planning import Split
from penstock.spark.read import reader, retention_hold
from penstock.spark.read.batch import BatchReader, SplitPartition
from penstock.spark.read.fetch import fetch
from penstock.spark.read.positions import offsets_at, span, starting
from penstock.spark.read.reader import read_split, restrict
from penstock.spark.read.retention_hold import RetentionHold
from penstock.spark.read.stream import StreamReader
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce
from penstock.testing.daemons import run_nsqd
from tools.harness.fake_log_server import FakeLogServer

COLUMNS = ("offset", "body")
ALL = ReadAllAvailable()


def settings(server: FakeLogServer, **options: str) -> SourceSettings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60", **options}
    return SourceSettings.parse(given)


def filled(server: FakeLogServer, hours_ago: tuple[int, ...], queue: int = 0) -> None:
    """Ten messages at each of these times."""
    now_ns = SYSTEM_CLOCK.wall_ns()
    for hours in hours_ago:
        server.queue("t", queue).append([b"x"] * 10, now_ns - hours * HOUR)


def found(server: FakeLogServer, **options: str) -> tuple[list[int], list[int]]:
    given = settings(server, **options)
    start, end = span(given, Cluster(given).bounds())
    return list(start.values()), list(end.values())


def test_a_batch_read_takes_the_whole_log_unless_told_otherwise(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    assert found(server) == ([0], [20])


def test_a_read_between_two_times_in_each_queue(server: FakeLogServer) -> None:
    filled(server, (5, 3, 1))
    filled(server, (9, 8, 7, 6, 3), queue=1)
    assert found(server, startingTimestamp="-4h", endingTimestamp="-2h") == ([10, 40], [20, 50])
    assert found(server, startingTimestamp="-4h") == ([10, 40], [30, 50])
    assert found(server, endingTimestamp="-1d") == ([0, 0], [0, 0])
    assert found(server, startingTimestamp="2999-01-01T00:00:00Z") == ([30, 50], [30, 50])


def test_times_that_are_the_wrong_way_round_are_refused(server: FakeLogServer) -> None:
    filled(server, (1,))
    with pytest.raises(OptionError, match="startingTimestamp is later than endingTimestamp"):
        found(server, startingTimestamp="-1h", endingTimestamp="-2h")


def test_a_stream_starts_at_a_time(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    given = settings(server, startingTimestamp="-2h")
    place = Place("t", server.node, 0)
    assert starting(given, Cluster(given).bounds(), "latest") == {place: 10}


def test_what_came_after_the_bounds_were_asked_for_is_left_to_the_next_read(
    server: FakeLogServer,
) -> None:
    filled(server, (3,))
    given = settings(server)
    bounds = Cluster(given).bounds()
    filled(server, (1,))
    latest: Offsets = {Place("t", server.node, 0): 10}
    assert offsets_at(SYSTEM_CLOCK.wall_ns(), bounds, given) == latest


def test_a_topic_that_vanishes_meanwhile_is_named(server: FakeLogServer) -> None:
    filled(server, (3,))
    given = settings(server)
    bounds = Cluster(given).bounds()
    server.delete("t")
    with pytest.raises(SourceError, match=r"topic t \(queue 0\) on node .* no topic 't'"):
        offsets_at(0, bounds, given)


def grouped(server: FakeLogServer, **options: str) -> SourceSettings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60"}
    return SourceSettings.parse(
        {**given, "startingOffsets": "group", "group": "g", **options}, "stream"
    )


def test_a_stream_starts_where_its_group_stands(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    filled(server, (3, 1), queue=1)
    server.groups["t"] = {"g": {"0": 12}}
    given = grouped(server)
    # A queue that the group has not seen yet is read from its start.
    assert list(starting(given, Cluster(given).bounds(), "latest").values()) == [12, 0]
    server.groups["t"]["g"] = {"0": 99, "1": 3}
    server.queue("t", 1).start = 10
    assert list(starting(given, Cluster(given).bounds(), "latest").values()) == [20, 10]


def test_a_group_that_is_not_there_is_an_error_for_a_named_topic(server: FakeLogServer) -> None:
    filled(server, (3,))
    server.queue("u").append([b"x"])
    given = grouped(server)
    with pytest.raises(SourceError) as failed:
        starting(given, Cluster(given).bounds(), "latest")
    assert str(failed.value) == (
        "startingOffsets=group: topic t has no group g. Name the group that a query read with, or "
        "begin with startingOffsets=earliest or latest, which makes the group"
    )
    server.groups["t"] = {"g": {"0": 4}}
    named, every = grouped(server, topic="t,u"), grouped(server, topic="*")
    with pytest.raises(SourceError, match="topic u has no group g"):
        starting(named, Cluster(named).bounds(), "latest")
    # One of all topics may have come later.
    begins = starting(every, Cluster(every).bounds(), "latest")
    assert {place.topic: at for place, at in begins.items()} == {"t": 4, "u": 0}


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_start_after_the_end_is_refused_by_name(server: FakeLogServer, lossy: str) -> None:
    filled(server, (3, 1))

    def read(start: int, end: int) -> tuple[list[int], list[int]]:
        node = {"topic": "t", "nsqd_http_address": server.address, "failOnDataLoss": lossy}
        given = SourceSettings.parse(
            node
            | {"startingOffsets": f'{{"t": {{"0": {start}}}}}'}
            | {"endingOffsets": f'{{"t": {{"0": {end}}}}}'},
            "batch",
        )
        bounds = Cluster(given).bounds()
        first, last = restrict(*span(given, bounds), bounds, given)
        return [*first.values()], [*last.values()]

    assert read(5, 5) == ([5], [5])
    with pytest.raises(OptionError) as refused:
        read(15, 5)
    assert str(refused.value) == (
        f"the read of topic t (queue 0) on node {server.node} starts at offset 15, after its end "
        "at offset 5: nothing would be read there"
    )


def test_a_batch_reader_covers_the_log(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 25_000)
    reader = BatchReader(settings(server, minPartitions="2"), COLUMNS)
    partitions = reader.partitions()
    assert len(partitions) == 2
    assert sum(batch.num_rows for each in partitions for batch in reader.read(each)) == 25_000


def test_a_batch_reader_cuts_small_splits(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 100)
    reader = BatchReader(settings(server, maxRecordsPerPartition="30"), COLUMNS)
    counts = [sum(batch.num_rows for batch in reader.read(each)) for each in reader.partitions()]
    assert counts == [25, 25, 25, 25]


def test_an_empty_log_is_one_empty_partition(server: FakeLogServer) -> None:
    server.queue("t")
    reader = BatchReader(settings(server), COLUMNS)
    (partition,) = reader.partitions()
    assert isinstance(partition, SplitPartition)
    assert list(reader.read(partition)) == []


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_a_mistyped_node_is_refused(server: FakeLogServer, option: str) -> None:
    server.queue("t").append([b"x"] * 10)
    given = settings(server, **{option: '{"t": {"typo:4151": {"0": 4}}}'})
    with pytest.raises(OptionError) as refused:
        BatchReader(given, COLUMNS).partitions()
    said = f"{option} names node typo:4151 for topic t, which is held by {server.node}"
    assert str(refused.value) == said


def split_from(server: FakeLogServer, start: int, log: str = "") -> Split:
    return Split(Place("t", "node:1", 0), server.address, start, 99, 10.0, log)


@pytest.mark.usefixtures("hasty")
def test_fetch_says_what_is_wrong(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 10)
    server.queue("t").start = 5
    given = settings(server)
    assert len(fetch(split_from(server, 5), 5, 1000, given)) > 0
    with pytest.raises(SourceError, match=r"offset 4 of topic t .*node:1 is gone: .* starts at 5"):
        fetch(split_from(server, 4), 4, 1000, given)
    with pytest.raises(SourceError, match=r"offset 11 of topic t .*node:1 is beyond its end 10"):
        fetch(split_from(server, 11), 11, 1000, given)
    server.fail_fetches = 100
    with pytest.raises(
        SourceError, match=r"topic t .* cannot be read from offset 5: .*TRY_LATER"
    ) as busy:
        fetch(split_from(server, 5), 5, 1000, given)
    assert "start it" not in str(busy.value)
    del server.topics["t"]
    with pytest.raises(SourceError, match="has vanished; offset 5 was to be read"):
        fetch(split_from(server, 5), 5, 1000, given)


def test_a_topic_that_was_made_again_since_it_was_planned(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 10)
    planned = split_from(server, 5, server.queue("t").log)
    given = settings(server)
    assert len(fetch(planned, 5, 1000, given)) > 0
    server.delete("t")
    server.queue("t").append([b"b"] * 20)
    said = f"offset 5 is of log {planned.log}, the node has log {server.queue('t').log} now"
    with pytest.raises(LostError, match=said):
        fetch(planned, 5, 1000, given)
    with pytest.raises(LostError, match="offset 30 is of log"):
        fetch(planned, 30, 1000, given)


def offsets(server: FakeLogServer, start: int, end: int, given: SourceSettings) -> list[int]:
    split = Split(Place("t", server.node, 0), server.address, start, end, 50.0)
    batches = read_split(split, COLUMNS, given)
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def test_many_fetches_make_one_split(server: FakeLogServer) -> None:
    queue = server.queue("t")
    for _ in range(30):
        queue.append([b"x" * 900] * 10)
    given = settings(server, fetchBytes="1000")
    assert offsets(server, 7, 293, given) == list(range(7, 293))
    assert server.fetches > 3


def test_a_gap_is_an_error_or_is_skipped_with_a_warning(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_once", WarnOnce())
    queue = server.queue("t")
    for _ in range(3):
        queue.append([b"x"] * 10)
    queue.drop(1)
    with pytest.raises(SourceError, match=r"offset 10 of topic t .* is missing .* goes on at 20"):
        offsets(server, 0, 30, settings(server, fetchBytes="1"))
    found = offsets(server, 0, 30, settings(server, failOnDataLoss="false"))
    assert found == [*range(10), *range(20, 30)]
    where = f"of topic t (queue 0) on node {server.node} is missing (damaged and set aside)"
    assert caplog.messages == [
        f"offset 10 {where}; the log goes on at 20. Skipped, as failOnDataLoss=false"
    ]
    assert offsets(server, 5, 15, settings(server, failOnDataLoss="false")) == [*range(5, 10)]
    assert caplog.messages[1:] == [
        f"offset 10 {where}; the log goes on beyond what was planned. Skipped, as "
        "failOnDataLoss=false"
    ]


def test_a_gap_within_one_fetch_is_noticed_too(server: FakeLogServer) -> None:
    queue = server.queue("t")
    for _ in range(3):
        queue.append([b"x"] * 10)
    queue.drop(1)
    with pytest.raises(SourceError, match="offset 10 of topic t"):
        offsets(server, 0, 30, settings(server))


@pytest.fixture
def cluster(server: FakeLogServer) -> Cluster:
    server.queue("t").append([b"x"] * 10)
    return Cluster(SourceSettings.parse({"topic": "t", "nsqd_http_address": server.address}))


def test_what_is_known_is_told_again_after_a_while(
    cluster: Cluster, server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = cluster.bounds()
    position = Position(dict.fromkeys(bounds, 4), "g", {})
    held = RetentionHold(cluster, WarnOnce())
    held.move(position, bounds)
    del server.requests[:]
    held.move(position, bounds)
    assert server.requests == []
    monkeypatch.setattr(retention_hold, "_AGAIN_NS", -1)
    held.move(position, bounds)
    assert server.requests == ["/log/commit"]


def test_offsets_of_a_log_that_is_gone_stay_out_of_the_next(
    cluster: Cluster, server: FakeLogServer
) -> None:
    bounds = cluster.bounds()
    RetentionHold(cluster, WarnOnce()).move(Position(dict.fromkeys(bounds, 11), "g", {}), bounds)
    assert server.groups == {}


def test_a_group_that_is_not_there_yet_and_cannot_be_made_is_an_error(
    cluster: Cluster, server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.queue("u").append([b"x"])
    both = Cluster(SourceSettings.parse({"topic": "t,u", "nsqd_http_address": server.address}))
    bounds = both.bounds()
    position = Position(dict.fromkeys(bounds, 1), "g", {})
    held = RetentionHold(both, WarnOnce())

    def refused(*_: object) -> None:
        raise SourceError("the node is busy")

    with monkeypatch.context() as patched:
        patched.setattr(both, "commit", refused)
        with pytest.raises(SourceError) as failed:
            held.move(position, bounds)
        assert str(failed.value) == (
            "group g could not be made for topic t and 1 more topics, so that retention would not "
            "wait for the query there: the node is busy. Start it again, with a longer timeout if "
            "the node is busy"
        )
    held.move(position, bounds)
    assert {topic: server.groups[topic]["g"] for topic in ("t", "u")} == {
        "t": {"0": 1}, "u": {"0": 1},
    }  # fmt: skip
    # One that is there is late, no more: also for a query that was started again.
    monkeypatch.setattr(both, "commit", refused)
    later = position._replace(offsets=dict.fromkeys(bounds, 0))
    held.move(later, bounds)
    RetentionHold(both, WarnOnce()).move(later, bounds)


def test_a_node_that_is_slow_with_many_new_groups_gets_them_by_parts(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:03}" for number in range(250)]
    for name in names:
        server.queue(name).append([b"x"])
    asked: list[int] = []
    whole = LogClient.commit_all

    def commit_all(self: LogClient, group: str, offsets: Any, *, owner: str = "") -> Any:
        asked.append(len(offsets))
        if len(offsets) > 100:
            raise NodeUnreachable(self.node, "", "timed out")
        return whole(self, group, offsets, owner=owner)

    monkeypatch.setattr(LogClient, "commit_all", commit_all)
    given = {"topicPattern": "t.*", "nsqd_http_address": server.address, "timeout": "60"}
    cluster = Cluster(SourceSettings.parse(given))
    bounds = cluster.bounds()
    RetentionHold(cluster, WarnOnce()).move(Position(dict.fromkeys(bounds, 0), "g", {}), bounds)
    assert asked == [250, 100, 100, 50]
    assert [list(server.groups[name]) for name in names] == [["g"]] * 250


def test_two_queries_with_one_group_over_a_real_nsqd() -> None:
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("t", b"x")
        given = {"topic": "t", "nsqd_http_address": nsqd.http, "group": "g",
                 "startingOffsets": "earliest"}  # fmt: skip

        def query() -> StreamReader:
            return StreamReader(SourceSettings.parse(given), ("offset",))

        first = query()
        end = first.latestOffset(first.initialOffset(), ALL)
        again = query()  # ended before its first batch was done
        again.initialOffset()
        for restarted in (first, again, query()):
            assert restarted.latestOffset(end, ALL) == end
        with pytest.raises(GroupTakenError, match=f"owner {end['owner']} moved it in topic t"):
            query().initialOffset()
        close_connections()
