"""The writers as Spark calls them, without a Spark."""

from __future__ import annotations

import pytest
from pyspark import TaskContext

from penstock.spark.errors import SinkError
from penstock.spark.sink import writer as module
from penstock.spark.sink.writer import BatchWriter, StreamWriter, output
from tests.unit.spark.sink.fake_node import FakeNode
from tests.unit.spark.sink.making import batch, schema

SCHEMA = schema("body binary")


class Task(TaskContext):
    """A task of a micro-batch."""

    properties: dict[str, str]

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def __new__(cls, **properties: str) -> Task:
        return object.__new__(cls)

    def partitionId(self) -> int:
        return 1

    def getLocalProperty(self, key: str) -> str | None:
        return self.properties.get(key.replace(".", "_"))


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    running = Task(sql_streaming_queryId="q-1", streaming_sql_batchId="5")
    monkeypatch.setattr(module, "current_task", lambda: running)
    return running


def options(node: FakeNode, **more: str) -> dict[str, str]:
    return {"topic": "t", "nsqd_http_address": node.address, "timeout": "60", **more}


def test_at_least_once_there_is_nothing_to_commit(node: FakeNode, task: Task) -> None:
    writer = StreamWriter(output(options(node), SCHEMA))
    message = writer.write(iter([batch([b"a", b"b"])]))
    assert node.bodies == [b"a", b"b"]
    writer.commit([message], 5)
    writer.abort([message, None], 5)
    assert len(node.requests) == 1


def test_a_stream_is_remembered_by_its_query(node: FakeNode, task: Task) -> None:
    writer = StreamWriter(output(options(node, exactlyOnce="true"), SCHEMA))
    message = writer.write(iter([batch([b"a", b"b"])]))
    assert node.bodies == []
    writer.commit([message, None], 5)
    assert node.bodies == [b"a", b"b"]
    assert node.committed == {("t", "q-1"): 5}
    writer.abort([None, message], 5)
    assert node.aborted == [], "it is decided"
    task.properties["streaming_sql_batchId"] = "6"
    writer.abort([None, writer.write(iter([batch([b"c"])]))], 6)
    assert node.aborted == [{"writer": "q-1", "batch": "6"}]


def test_a_batch_write_is_remembered_by_its_options(node: FakeNode, task: Task) -> None:
    given = options(node, exactlyOnce="true", writerId="w", writerBatch="0")
    writer = BatchWriter(output(given, SCHEMA))
    writer.abort([None])
    assert node.aborted == [{"writer": "w", "batch": "0", "scope": "t"}]
    writer.commit([writer.write(iter([batch([b"a"])]))])
    assert node.committed == {("t", "w"): 0}
    # All that a driver after this one gets may be no message at all.
    writer.commit([None])
    assert node.bodies == [b"a"]


def test_writes_of_one_number_to_several_topics_are_each_decided_by_itself(
    node: FakeNode, task: Task
) -> None:
    given = {"exactlyOnce": "true", "writerId": "w", "writerBatch": "3"}
    for _ in range(2):
        for topic in ("t", "u"):
            writer = BatchWriter(output(options(node, **given) | {"topic": topic}, SCHEMA))
            writer.commit([writer.write(iter([batch([topic.encode()])]))])
    assert node.published == [("t", 0, b"t"), ("u", 0, b"u")]


def test_without_a_query_there_is_no_exactly_once(node: FakeNode, task: Task) -> None:
    task.properties = {}
    with pytest.raises(SinkError, match="Spark tells no query id"):
        StreamWriter(output(options(node, exactlyOnce="true"), SCHEMA)).write(iter([]))
