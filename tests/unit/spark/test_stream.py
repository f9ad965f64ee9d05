"""The stream reader, called as Spark calls it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.spark.errors import OptionError
from penstock.spark.settings import Settings
from penstock.spark.stream import NsqStreamReader
from tests.spark.fake_log_server import FakeLogServer

ALL = ReadAllAvailable()


def reader(server: FakeLogServer, **options: str) -> NsqStreamReader:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "1",
             "startingOffsets": "earliest", "group": "g", **options}  # fmt: skip
    return NsqStreamReader(Settings.parse(given), ("offset",))


def rows(stream: NsqStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    # Tasks get a pickled copy.
    copy = pickle.loads(pickle.dumps(NsqStreamReader(stream.settings, stream.columns)))
    partitions = pickle.loads(pickle.dumps(stream.partitions(start, end)))
    batches = [batch for each in partitions for batch in copy.read(each)]
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


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


def test_a_limit_is_kept_and_the_end_reported(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server, maxRecordsPerTrigger="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    position = stream.initialOffset()
    seen: list[int] = []
    for _ in range(3):
        end = stream.latestOffset(position, ReadMaxRows(4))
        seen += rows(stream, position, end)
        position = end
    assert seen == list(range(10))
    assert stream.reportLatestOffset() == position


def test_available_now_ends_where_it_was_told(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 10)
    stream = reader(server)
    stream.prepareForTriggerAvailableNow()
    server.queue("t").append([b"y"] * 5)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.latestOffset(end, ALL) == end
    assert end["offsets"]["t"][server.node] == {"0": 10}


def test_a_queue_that_appears_later_is_read_from_its_start_and_held(
    server: FakeLogServer,
) -> None:
    server.queue("t", 0).append([b"x"] * 3)
    stream = reader(server)
    start = stream.initialOffset()
    server.queue("t", 1).append([b"y"] * 4)
    end = stream.latestOffset(start, ALL)
    assert sorted(rows(stream, start, end)) == [0, 0, 1, 1, 2, 2, 3]
    assert server.groups["t"]["g"] == {"0": 0, "1": 0}


def test_a_group_of_its_own_is_kept_in_the_checkpoint(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    given = {"topic": "t", "nsqd_http_address": server.address}
    first = NsqStreamReader(Settings.parse(given), ("offset",)).initialOffset()
    again = NsqStreamReader(Settings.parse(given), ("offset",))
    assert again.latestOffset(first, ALL)["group"] == first["group"]
    assert list(server.groups["t"]) == [first["group"]]
    # Without startingOffsets a stream begins with what comes next, as Kafka's does.
    assert first["offsets"]["t"][server.node] == {"0": 1}


def test_a_commit_that_fails_does_not_end_the_query(server: FakeLogServer, capsys: Any) -> None:
    server.queue("t").append([b"x"])
    stream = reader(server)
    position = stream.initialOffset()
    del server.topics["t"]
    stream.commit({**position, "offsets": {"t": {server.node: {"0": 1}}}})
    assert "group g was not moved: topic t on node" in capsys.readouterr().err


def test_a_mistyped_node_is_refused_and_holds_nothing(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    stream = reader(server, startingOffsets='{"t": {"typo:4151": {"0": 0}}}')
    with pytest.raises(OptionError, match="startingOffsets names node typo:4151 for topic t, "):
        stream.initialOffset()
    assert server.groups == {}
