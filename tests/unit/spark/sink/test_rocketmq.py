"""The sink to RocketMQ's brokers: its options, rows that become messages, and their queues."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from penstock.rocketmq.blocking import Account
from penstock.rocketmq.protocol.messages import properties
from penstock.spark.errors import OptionError, SinkError, SourceError
from penstock.spark.formats.rocketmq import RocketmqDataSource
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.sink.rocketmq.queues import Queue, Queues, queue_numbered, queues_in
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import (
    TOPIC,
    RocketmqSinkSettings,
    invalid_topic,
)
from penstock.spark.sink.rocketmq.rows import ANY_QUEUE, Key, RocketmqRows, body_column
from tests.unit.spark.sink.making import batch, bodies_of, schema
from tests.unit.spark.sink.making_rocketmq import rows

SERVERS = {"namesrvAddr": "a:1;b:2"}
EXACT = {"exactlyOnce": "true", "nsqd_http_address": "a:1,b:2"}


def test_brokers_are_found_as_a_source_does_and_rows_staged_over_http() -> None:
    settings = RocketmqSinkSettings.parse(
        {**SERVERS, "path": "t", "accessKey": "k", "secretKey": "s", "tls_server_name": "n"}
    )
    assert settings.topic == "t"
    assert "'s'" not in repr(settings)
    directory = settings.directory()
    assert directory.namesrv == ("a:1", "b:2")
    access = directory.access
    assert isinstance(access, BrokerAccess)
    assert (access.account, access.tls, access.server_name) == (Account("k", "s"), True, "n")
    exact = RocketmqSinkSettings.parse(
        {**EXACT, "timeout": "3", "writerId": "w", "writerBatch": "5"}
    )
    staging = exact.staging()
    assert (staging.nodes, staging.access.timeout_s) == (("a:1", "b:2"), 3.0)
    assert (staging.writer, staging.writer_batch) == ("w", 5)
    staging.require_writer(streaming=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say where to write: namesrvAddr"),
        ({"namesrvAddr": "a"}, "namesrvAddr must be host:port"),
        ({**SERVERS, "accessKey": "k"}, "accessKey and secretKey"),
        *(
            ({**SERVERS, "topic": name}, f"topic name '{name}' is invalid")
            for name in ("a b", "orders.eu", "a,b", "*")
        ),
        ({**SERVERS, "exactlyOnce": "true"}, "the only one of Java's brokers, cannot"),
        ({**SERVERS, **EXACT}, "leave namesrvAddr and accessKey out"),
        ({**SERVERS, "nsqd_http_address": "a:1"}, "nsqd_http_address is for exactlyOnce=true"),
        ({**EXACT, "topic": "a b"}, "topic name 'a b' is invalid"),
        ({**EXACT, "writerId": "w" * 129}, "writerId has more than 128 characters"),
        ({**EXACT, "nsqd_http_address": "a"}, "nsqd_http_address must be host:port"),
        ({**SERVERS, "tls_key": "k"}, "no use without tls_cert"),
    ],
)
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        RocketmqSinkSettings.parse(options)
    assert said in str(refused.value)


def test_names_that_topics_can_have() -> None:
    for name in ("t", "%RETRY%g", "a-b_C|9", "x" * 127):
        assert TOPIC.fullmatch(name)
    for name in ("", "a.b", "a b", "ü", "x" * 128):
        assert not TOPIC.fullmatch(name)
        assert repr(name)[1:-1] in invalid_topic(name)


MAP = pa.map_(pa.string(), pa.string())


def test_properties_are_put_together_a_column_at_a_time() -> None:
    maps = pa.array([[("a", "1"), ("b", None)], None, [], [("KEYS", "old"), ("c", "ü")]], MAP)
    keys, tags = ["k1 k2", None, "", "new"], [None, "T", None, "T"]
    given = batch([b"1", b"2", b"3", b"4"], properties=maps, keys=keys, tags=tags)
    for sliced in (given, given.slice(1)):
        ((_, piece),) = rows().read(sliced)
        assert piece.properties is not None
        found = [properties.parse(text.decode()) for text in piece.properties.to_pylist()]
        wanted = [{"a": "1", "KEYS": "k1 k2"}, {"TAGS": "T"}, {},
                  {"KEYS": "new", "c": "ü", "TAGS": "T"}]  # fmt: skip
        assert found == wanted[-len(found) :]


def test_what_a_broker_has_done_with_a_message_is_not_done_again() -> None:
    past = [("TRAN_MSG", "true"), ("a", "1"), ("DELAY", "3"), ("TIMER_DELIVER_MS", "9")]
    kept = pa.array([past, past, None, None], MAP)
    given = batch([b"1", b"2", b"3", b"4"], properties=kept, delay_level=[0, 2, 0, 3])
    found = {}
    for _, piece in rows().read(given):
        assert piece.properties is not None
        for body, text in zip(bodies_of(piece), piece.properties.to_pylist(), strict=True):
            found[body] = properties.parse(text.decode())
    assert found == {
        b"1": {"a": "1"},
        b"2": {"a": "1", "DELAY": "2"},
        b"3": {},
        b"4": {"DELAY": "3"},
    }


def test_rows_by_topic_key_and_delay() -> None:
    given = batch(
        [b"1", b"2", b"3", b"4", b"5"],
        topic=["a", "b", "a", "a", "a"],
        sharding_key=["x", None, "x", "y", "x"],
        delay_level=[0, None, 0, 0, 3],
    )
    found = {key: (bodies_of(piece), piece.rows.tolist()) for key, piece in rows(None).read(given)}
    plain = {key: each for key, each in found.items() if not key.level}
    assert sorted(plain.values()) == [([b"1", b"3"], [0, 2]), ([b"2"], [1]), ([b"4"], [3])]
    assert found[Key("b", ANY_QUEUE, 0)] == ([b"2"], [1])
    ((late, (bodies, _)),) = [item for item in found.items() if item[0].level]
    assert (late.level, bodies) == (3, [b"5"])
    assert {key.shard for key in plain if key.topic == "a"} == {ord("x"), ord("y")}


def test_keys_are_hashed_as_java_hashes_them() -> None:
    # The hash of the first is the smallest number of 32 bits, whose absolute value has 33.
    given = batch([b"1", b"2"], sharding_key=["polygenelubricants", "order-7"])
    assert [key.shard for key, _ in rows().read(given)] == [1207111304, 1 << 31]
    limited = RocketmqRows("body", "t", 3, shards=240)
    assert {key.shard for key, _ in limited.read(given)} == {(1 << 31) % 240, 1207111304 % 240}


def test_a_queue_goes_before_a_key() -> None:
    last = (1 << 31) - 1
    given = batch(
        [b"1", b"2", b"3", b"4"],
        queue=pa.array([0, None, last, None], pa.int32()),
        sharding_key=["x", "x", None, None],
    )
    found = {key.queue: (key.shard, bodies_of(piece)) for key, piece in rows().read(given)}
    assert found[0][1] == [b"1"]
    assert found[last][1] == [b"3"]
    unnumbered = [key for key, _ in rows().read(given) if key.queue is None]
    assert {key.shard for key in unnumbered} == {ANY_QUEUE, ord("x")}
    with pytest.raises(SinkError, match="row 1 of partition 3: queue is outside 0 to"):
        list(rows().read(batch([b"1", b"2"], queue=[0, -1])))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"keys": ["a", "b\x01"]}, "row 1 of partition 3: column keys holds a character 1 or 2"),
        ({"properties": pa.array([[], [("a", "\x02")]], MAP)},
         "row 1 of partition 3: column properties holds a character 1 or 2"),
        ({"tags": ["a", "x" * 40_000]}, "row 1 of partition 3: its properties have more than"),
        ({"delay_level": [0, -1]}, "row 1 of partition 3: delay_level is outside 0 to"),
        ({"topic": ["a", "b c"]}, "row 1 of partition 3: topic name 'b c' is invalid"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_named(columns: dict[str, Any], said: str) -> None:
    given = pa.RecordBatch.from_pydict({"body": [b"1", b"2"], "topic": ["a", "a"], **columns})
    with pytest.raises(SinkError) as refused:
        list(rows(None).read(given))
    assert str(refused.value).startswith(said)


def test_columns() -> None:
    body = StructField("body", StringType())
    assert body_column(SCHEMA, None) == "body"
    named = StructField("properties", MapType(StringType(), StringType()))
    numbers = StructField("properties", MapType(StringType(), LongType()))
    assert body_column(StructType([body, named]), "t") == "body"
    marked = StructField("store_timestamp", TimestampType(), False, {"spark.watermarkDelayMs": 1})
    assert body_column(StructType([body, marked]), "t") == "body"
    for fields, said in (
        ([body], "say where to write"),
        ([named], "one column body"),
        ([body, StructField("text", StringType())], "writes no column text"),
        ([body, StructField("offset", LongType())], "writes no column offset"),
        ([body, StructField("broker", LongType())], "writes no column broker"),
        ([body, StructField("queue", StringType())], "column queue cannot be string"),
        ([body, StructField("keys", LongType())], "column keys cannot be bigint"),
        ([body, numbers], "column properties cannot be map<string,bigint>"),
    ):
        with pytest.raises(OptionError, match=said):
            body_column(StructType(fields), "t" if len(fields) > 1 else None)


def route(**perms: int) -> dict[str, Any]:
    return {
        "brokerDatas": [
            {"brokerName": name, "brokerAddrs": {"0": f"{name}:1", "1": f"{name}:2"}}
            for name in perms
        ],
        "queueDatas": [
            {"brokerName": name, "perm": perm, "writeQueueNums": 2} for name, perm in perms.items()
        ],
    }


class Routes:
    def __init__(self, routes: dict[str, Any]) -> None:
        self.routes = routes
        self.asked: list[str] = []

    def route(self, topic: str) -> Any:
        self.asked.append(topic)
        return self.routes.get(topic)


def test_masters_that_may_be_written_to_in_the_order_of_java_s_clients() -> None:
    assert queues_in(route(a=6, b=4), 16) == [Queue("a:1", 0), Queue("a:1", 1)]
    assert queues_in(route(a=2, b=6), 1) == [Queue("a:1", 0), Queue("b:1", 0)]
    assert queues_in(route(b=6, a=6), 1) == [Queue("a:1", 0), Queue("b:1", 0)]
    without = route(a=6)
    del without["brokerDatas"][0]["brokerAddrs"]["0"]
    assert queues_in(without, 16) == []
    with pytest.raises(SourceError, match="makes no sense"):
        queues_in({"queueDatas": 5}, 16)


def test_a_queue_by_its_number() -> None:
    queues = queues_in(route(a=6, b=6), 16)
    assert queue_numbered(0, queues, "t") == Queue("a:1", 0)
    assert queue_numbered(1, queues, "t") == Queue("b:1", 1)
    with pytest.raises(SinkError, match=r"topic t has no queue 2 to write to, its last is 1: give"):
        queue_numbered(2, queues, "t")


def test_a_route_is_asked_for_once_and_when_it_was_forgotten() -> None:
    routes = Routes({"t": route(a=6), "TBW102": route(b=7)})
    queues = Queues(routes)  # type: ignore[arg-type]
    assert queues.of("t") == queues.of("t") == [Queue("a:1", 0), Queue("a:1", 1)]
    queues.forget("t")
    queues.of("t")
    assert routes.asked == ["t", "t"]
    assert queues.of("new") == [Queue("b:1", 0), Queue("b:1", 1)]
    with pytest.raises(SinkError, match=r"topic t is on no broker .* autoCreateTopicEnable=true"):
        Queues(Routes({})).of("t")  # type: ignore[arg-type]


OPTIONS = {"topic": "t", "namesrvAddr": "h:1"}


def test_writers_are_pickled_to_the_tasks() -> None:
    source = RocketmqDataSource(OPTIONS)
    given = schema("body binary,keys string,delay_level bigint")
    writer: Any
    for writer in (source.writer(given, False), source.streamWriter(given, True)):
        again = pickle.loads(pickle.dumps(writer))
        assert again.output == writer.output


def test_what_is_not_for_exactly_once_and_a_topic_that_is_not_overwritten() -> None:
    exact = RocketmqDataSource({"topic": "t", "nsqd_http_address": "h:1", "exactlyOnce": "true"})
    exact.streamWriter(schema("body binary"), False)
    with pytest.raises(OptionError, match="delay_level is not for exactlyOnce"):
        exact.streamWriter(schema("body binary,delay_level bigint"), False)
    with pytest.raises(OptionError, match=r"column queue is not for .* a sharding_key keeps rows"):
        exact.streamWriter(schema("body binary,queue bigint"), False)
    with pytest.raises(OptionError, match="needs writerId and writerBatch"):
        exact.writer(schema("body binary"), False)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        RocketmqDataSource(OPTIONS).writer(schema("body binary"), True)
