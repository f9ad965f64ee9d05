"""The sink at RocketMQ's brokers: rows that are sent, or staged and committed once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from threading import Thread

import pyarrow as pa
import pytest

from penstock.log_api.errors import NodeUnreachable
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import java_hash
from penstock.spark.errors import SinkError
from penstock.spark.rocketmq.routes import Routes
from penstock.spark.sink import sending
from penstock.spark.sink import writer as writers
from penstock.spark.sink.commits import commit
from penstock.spark.sink.rocketmq.publishing import publish_rows
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import RocketmqSinkSettings
from penstock.spark.sink.rocketmq.rows import RocketmqRows
from penstock.spark.sink.rocketmq.writer import SHARDS, output, stage_rows
from penstock.spark.sink.staging import Batch, StagedRows
from penstock.spark.sink.writer import StreamWriter
from penstock.testing.daemons import run_nsqd
from tests.forwarding import wait_until
from tests.programs.spark.sink.test_sink import Task
from tests.spark.rocketmq_brokers import Brokers, run_brokers
from tests.unit.spark.rocketmq.scripted_broker import ScriptedBroker
from tests.unit.spark.sink.making import batch, schema
from tests.unit.spark.sink.making_rocketmq import exact, rows, settings, stored

BODIES = [b"%04d" % number for number in range(1000)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


def test_batches_take_turns_among_queues(brokers: Brokers) -> None:
    brokers.make_topic("turns", 4)
    given = batch(BODIES, keys=[f"k{number}" for number in range(1000)])
    wanted = settings(brokers, topic="turns", requestBytes="2000")
    assert publish_rows([given], rows("turns"), wanted) == 1000
    found = stored(brokers, "turns")
    assert sorted(body for _, body, _ in found) == BODIES
    assert {queue for queue, _, _ in found} == {0, 1, 2, 3}
    assert all(named["KEYS"] == f"k{int(body)}" for _, body, named in found)


def test_rows_of_a_key_stay_in_their_queue_and_order(brokers: Brokers) -> None:
    brokers.make_topic("keys", 4)
    given = batch(BODIES, sharding_key=[str(number % 10) for number in range(1000)])
    wanted = settings(brokers, topic="keys", requestBytes="500", requestsInFlight="1")
    publish_rows([given], rows("keys"), wanted)
    found = stored(brokers, "keys")
    for key in range(10):
        mine = [(queue, body) for queue, body, _ in found if int(body) % 10 == key]
        assert len({queue for queue, _ in mine}) == 1
        assert [body for _, body in mine] == BODIES[key::10]


def test_a_key_is_in_the_queue_that_a_java_producer_chooses(brokers: Brokers) -> None:
    brokers.make_topic("java", 4)
    keys = ["order-1", "order-2", "order-12", "ü"]
    publish_rows(
        [batch([key.encode() for key in keys], sharding_key=keys)],
        rows("java"),
        settings(brokers, topic="java"),
    )
    # abs(key.hashCode() % 4), as SelectMessageQueueByHash has it.
    wanted = {key.encode(): abs(java_hash(key)) % 4 for key in keys}
    assert {body: queue for queue, body, _ in stored(brokers, "java")} == wanted
    assert len(set(wanted.values())) > 1


def test_a_row_chooses_its_queue(brokers: Brokers) -> None:
    brokers.make_topic("chosen", 4)
    given = batch(BODIES, queue=[number % 3 for number in range(1000)])
    wanted = settings(brokers, topic="chosen", requestBytes="2000")
    assert publish_rows([given], rows("chosen"), wanted) == 1000
    assert {body: queue for queue, body, _ in stored(brokers, "chosen")} == {
        body: int(body) % 3 for body in BODIES
    }
    with pytest.raises(SinkError, match="topic chosen has no queue 4 to write to, its last is 3"):
        publish_rows([batch([b"a"], queue=[4])], rows("chosen"), wanted)


def test_delays_go_one_by_one_to_a_topic_that_is_made(brokers: Brokers) -> None:
    given = batch([b"now", b"late"], delay_level=[0, 1])
    assert publish_rows([given], rows("made"), settings(brokers, topic="made")) == 2
    wait_until(lambda: len(stored(brokers, "made")) == 2, brokers.broker.log)
    found = stored(brokers, "made")
    assert [body for _, body, _ in sorted(found, key=lambda each: each[1] == b"late")] == [
        b"now", b"late",
    ]  # fmt: skip


class BusyBroker(ScriptedBroker):
    """One that takes every other of the messages that come one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.queue("t")
        self.came = 0
        self.took: list[bytes] = []

    def answer(self, request: Command) -> Command:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return super().answer(request)
        self.came += 1
        if self.came % 2:
            return request.answer(ResponseCode.SYSTEM_BUSY, "[PCBUSY_CLEAN_QUEUE]broker busy")
        self.took.append(request.body)
        return request.answer(ext={})


def test_of_delayed_messages_those_that_are_stored_do_not_go_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "_PAUSE_S", 0.001)
    bodies, broker = BODIES[:100], BusyBroker()
    with broker:
        wanted = RocketmqSinkSettings.parse({"namesrvAddr": broker.address, "topic": "t"})
        assert publish_rows([batch(bodies, delay_level=[1] * 100)], rows(), wanted) == 100
        assert sorted(broker.took) == bodies


def test_messages_that_waited_before_they_were_read_are_forwarded_at_once(brokers: Brokers) -> None:
    brokers.make_topic("forwarded", 1)
    kept = [[("TRAN_MSG", "true")], [("DELAY", "18")], [("TIMER_DELAY_SEC", "900")]]
    for number, each in enumerate(kept):
        named = pa.array([each], pa.map_(pa.string(), pa.string()))
        given = batch([b"%d" % number], properties=named)
        publish_rows([given], rows("forwarded"), settings(brokers, topic="forwarded"))
    assert [body for _, body, _ in stored(brokers, "forwarded")] == [b"0", b"1", b"2"]


def test_what_a_broker_refuses_is_named(brokers: Brokers) -> None:
    brokers.make_topic("big", 1)
    given = batch([b"a", b"x" * (5 << 20), b"b"])
    with pytest.raises(SinkError) as refused:
        publish_rows([given], rows("big"), settings(brokers, topic="big", requestBytes="9000000"))
    assert str(refused.value).startswith(
        f"row 1 of partition 3 (5242880 bytes): refused by broker {brokers.broker.rocketmq}: "
    )


@pytest.mark.usefixtures("hasty")
def test_no_broker_answers() -> None:
    with run_brokers() as brokers:
        brokers.make_topic("t", 2)
        brokers.broker.kill()
        with pytest.raises(SinkError) as failed:
            publish_rows([batch([b"a"])], rows(), settings(brokers, topic="t"))
        said = str(failed.value)
        assert said.startswith("row 0 of partition 3: no broker takes messages of topic t (")
        assert said.endswith("tried for 60 s, option timeout)")


def test_a_broker_that_starts_again_is_waited_for() -> None:
    with run_brokers() as brokers:
        brokers.make_topic("t", 2)
        brokers.broker.kill()
        starting = Thread(target=brokers.broker.start)
        starting.start()
        wanted = settings(brokers, topic="t", timeout="60")
        assert publish_rows([batch([b"a"], sharding_key=["k"])], rows(), wanted) == 1
        starting.join()
        assert [body for _, body, _ in stored(brokers, "t")] == [b"a"]


def test_tasks_go_to_the_queues_that_a_name_server_told_before(
    brokers: Brokers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.make_topic("silent", 1)
    wanted = settings(brokers, topic="silent")
    assert publish_rows([batch(BODIES[:3])], rows("silent"), wanted) == 3

    def silent(*_: object) -> Command:
        raise NodeUnreachable("n:9876", "", "connection refused")

    monkeypatch.setattr(Routes, "_first_answer", silent)
    assert publish_rows([batch(BODIES[3:5])], rows("silent"), wanted) == 2
    assert sorted(body for _, body, _ in stored(brokers, "silent")) == BODIES[:5]
    (said,) = caplog.messages
    assert said.startswith("no name server answers for topic silent")


@pytest.fixture(scope="module")
def one() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


@pytest.fixture(scope="module")
def two() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


def stage(given: pa.RecordBatch, settings: RocketmqSinkSettings, number: int = 0) -> StagedRows:
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
    for given in (batch(BODIES), batch(BODIES[::-1])):
        writer = StreamWriter(output(options, schema("body binary")))
        writer.commit([pickle.loads(pickle.dumps(writer)).write(iter([given])), None], 5)
    found = stored(one, "again")
    assert sorted(body for _, body, _ in found) == BODIES
