"""Staging at real brokers and committing: rows appear once, keys keep queue and order."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.rocketmq.protocol.codes import RequestCode
from penstock.spark.errors import SinkError
from penstock.spark.sink import writer as writers
from penstock.spark.sink.commits import commit
from penstock.spark.sink.rocketmq.rows import RocketmqRows
from penstock.spark.sink.rocketmq.settings import Settings
from penstock.spark.sink.rocketmq.writer import SHARDS, output, stage_rows
from penstock.spark.sink.staging import Batch, StagedRows
from penstock.spark.sink.writer import StreamWriter
from penstock.testing.daemons import run_nsqd
from tests.programs.spark.sink.test_writer import Task
from tests.spark.rocketmq_brokers import Brokers, run_brokers
from tests.unit.spark.sink.making import batch, schema
from tests.unit.spark.sink.making_rocketmq import exact, stored

BODIES = [b"%04d" % number for number in range(1000)]


@pytest.fixture(scope="module")
def one() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


@pytest.fixture(scope="module")
def two() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


def stage(given: pa.RecordBatch, settings: Settings, number: int = 0) -> StagedRows:
    rows = RocketmqRows("body", settings.topic, 3, SHARDS)
    batch = Batch("w", number, settings.topic or "")
    return stage_rows([given], rows, settings.staging(), batch)


def test_rows_are_there_once_however_often_they_are_written(one: Brokers) -> None:
    one.make_topic("once", 4)
    wanted = exact(one, topic="once", requestBytes="2000")
    given = batch(BODIES, keys=[f"k{number}" for number in range(1000)], tags=["T"] * 1000)
    first, again = stage(given, wanted), stage(given.slice(0, 1000), wanted)
    assert stored(one, "once") == []
    commit([first], wanted.nodes, wanted.staging().access)
    commit([again], wanted.nodes, wanted.staging().access)
    assert stage(given, wanted).parts == {}
    found = stored(one, "once")
    assert sorted(body for _, body, _ in found) == BODIES
    assert {queue for queue, _, _ in found} == {0, 1, 2, 3}
    assert all((named["KEYS"], named["TAGS"]) == (f"k{int(body)}", "T") for _, body, named in found)


def test_rows_of_a_key_stay_in_one_queue_of_one_broker_in_order(one: Brokers, two: Brokers) -> None:
    for brokers in (one, two):
        brokers.make_topic("keys", 4)
    keys = [None if number % 10 == 9 else str(number % 10) for number in range(1000)]
    wanted = exact(one, two, topic="keys", requestBytes="2000", requestsInFlight="1")
    commit([stage(batch(BODIES, sharding_key=keys), wanted)], wanted.nodes, wanted.staging().access)
    found = [(broker, queue, body) for broker, brokers in enumerate((one, two))
             for queue, body, _ in stored(brokers, "keys")]  # fmt: skip
    assert sorted(body for _, _, body in found) == BODIES
    for key in range(9):
        mine = [(place, body) for *place, body in found if int(body) % 10 == key]
        assert len({tuple(place) for place, _ in mine}) == 1
        assert [body for _, body in mine] == BODIES[key::10]
    assert len({(broker, queue) for broker, queue, _ in found}) > 4


def test_what_a_broker_does_not_take_is_named_with_the_remedy(one: Brokers) -> None:
    big = batch([b"a", b"x" * (4 << 20) + b"y", b"b"])
    with pytest.raises(SinkError, match=r"^row 1 of .* 4194305 bytes.*its maxMessageSize"):
        stage(big, exact(one, topic="big", requestBytes="9000000"))
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        wanted = exact(one, topic="t", nsqd_http_address=nsqd.http)
        with pytest.raises(SinkError, match=f"node {nsqd.http} does not serve RocketMQ's queues"):
            stage(batch([b"a"]), wanted)
    one.ask(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false")
    with pytest.raises(SinkError, match="has no topic nope and makes none: make it"):
        stage(batch([b"a"]), exact(one, topic="nope"))


def test_a_micro_batch_that_comes_again_is_not_written_again(
    one: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writers of a stream as Spark calls them, before and after the end of a driver."""
    task = Task(sql_streaming_queryId="q-1", streaming_sql_batchId="5")
    monkeypatch.setattr(writers, "current_task", lambda: task)
    options = {"topic": "again", "exactlyOnce": "true", "nsqd_http_address": one.broker.http}
    one.make_topic("again", 4)
    for rows in (batch(BODIES), batch(BODIES[::-1])):
        writer = StreamWriter(output(options, schema("body binary")))
        writer.commit([pickle.loads(pickle.dumps(writer)).write(iter([rows])), None], 5)
    found = stored(one, "again")
    assert sorted(body for _, body, _ in found) == BODIES
