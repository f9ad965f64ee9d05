"""A stream's plans over a scripted broker, without Spark."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.errors import SourceError
from penstock.spark.read.batch import BatchReader, SplitPartition
from penstock.spark.read.stream import StreamReader
from penstock.spark.rocketmq.reader import ROCKETMQ
from penstock.spark.rocketmq.settings import RocketmqSettings
from tests.unit.spark.rocketmq.scripted_broker import NAME, ScriptedBroker
from tools.harness.fake_log_server import FakeLogServer

COLUMNS = ("queue", "queue_offset")


def stream(broker: ScriptedBroker, **options: str) -> StreamReader:
    given = {"topic": "t", "namesrvaddr": broker.address, "timeout": "60",
             "startingOffsets": "earliest", **options}  # fmt: skip
    return StreamReader(RocketmqSettings.parse(given), COLUMNS, ROCKETMQ)


def rows(reader: StreamReader, start: Any, end: Any) -> list[tuple[int, int]]:
    return [
        (row["queue"], row["queue_offset"])
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_queues_are_places_and_batches_are_repeated_exactly(broker: ScriptedBroker) -> None:
    for number in (0, 1):
        broker.queue(number=number).append([b"x"] * 50)
    reader = stream(broker, group="g")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["offsets"] == {"t": {NAME: {"0": 50, "1": 50}}}
    wanted = [(queue, offset) for queue in (0, 1) for offset in range(50)]
    assert rows(reader, start, end) == wanted
    broker.queue().append([b"x"] * 10)
    assert rows(stream(broker, group="g"), start, end) == wanted  # after a restart
    last = reader.latestOffset(end, ReadAllAvailable())
    assert broker.committed["t", "g", 0] == 50
    assert rows(reader, end, last) == [(0, offset) for offset in range(50, 60)]


def test_a_topic_that_was_deleted_before_it_was_read(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queue().append([b"x"] * 50)
    broker.queue("u")
    reader = stream(broker, topic="t,u")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    broker.queue().append([b"x"] * 5)
    reader.latestOffset(end, ReadAllAvailable())
    del broker.topics["t"]
    reader.cluster._directory._looked_up_ns = 0
    with pytest.raises(SourceError, match=f"deleted on node {NAME}: offsets 50 to 55 were not re"):
        reader.latestOffset(end, ReadAllAvailable())
    broker.queue().append([b"y"] * 20)  # made again, and shorter
    reader.cluster._directory._looked_up_ns = 0
    with pytest.raises(SourceError, match=r"offset 50 of topic t .* is beyond its end 20"):
        reader.latestOffset(end, ReadAllAvailable())
    lenient = stream(broker, topic="t,u", failondataloss="false")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        again = lenient.latestOffset(end, ReadAllAvailable())
        assert rows(lenient, end, again) == [(0, offset) for offset in range(20)]
    assert "Skipped, as failOnDataLoss=false" in caplog.text


def test_the_only_topic_is_deleted_and_comes_back(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queue().append([b"x"] * 50)
    reader = stream(broker, failondataloss="false")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    del broker.topics["t"]
    reader.cluster._directory._looked_up_ns = 0
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert rows(reader, end, end) == []
    assert f"topic t was deleted on node {NAME}: it was read up to offset 50" in caplog.text
    broker.queue().append([b"y"] * 20)
    reader.cluster._directory._looked_up_ns = 0
    again = reader.latestOffset(end, ReadAllAvailable())
    assert rows(reader, end, again) == [(0, offset) for offset in range(20)]


def test_a_stream_starts_where_a_group_of_consumers_stands(broker: ScriptedBroker) -> None:
    for number in (0, 1):
        broker.queue(number=number).append([b"x"] * 9)
    broker.committed["t", "g", 0] = 6
    reader = stream(broker, group="g", startingOffsets="group")
    start = reader.initialOffset()
    assert start["offsets"] == {"t": {NAME: {"0": 6, "1": 0}}}
    with pytest.raises(SourceError, match="topic t has no group h"):
        stream(broker, group="h", startingOffsets="group").initialOffset()
    # Brokers hold nothing for a group: what went meanwhile is lost.
    broker.queue().expire(8)
    with pytest.raises(SourceError, match=r"offset 6 of topic t .* is gone: the log starts at 8"):
        stream(broker, group="g", startingOffsets="group").initialOffset()


def test_a_batch_is_planned_once(broker: ScriptedBroker) -> None:
    broker.queue(number=2).append([b"x"] * 50)
    given = {"topic": "t", "namesrvaddr": broker.address, "timeout": "60"}
    reader = BatchReader(RocketmqSettings.parse(given), COLUMNS, ROCKETMQ)
    partitions = reader.partitions()
    broker.queue(number=2).append([b"x"] * 50)
    assert all(isinstance(each, SplitPartition) for each in partitions)
    found = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    assert found == [{"queue": 2, "queue_offset": offset} for offset in range(50)]


def test_a_node_that_knows_nsq_only_is_named(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60"}
    reader = BatchReader(RocketmqSettings.parse(given), COLUMNS, ROCKETMQ)
    with pytest.raises(SourceError, match=f"node {server.address} does not serve RocketMQ's queue"):
        reader.partitions()
