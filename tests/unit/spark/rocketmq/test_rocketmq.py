"""Streams over RocketMQ's topics: their options, and rows of what brokers store."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.rocketmq.blocking import Account
from penstock.rocketmq.broker import names
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.offsets import Place
from penstock.spark.option_declarations import table
from penstock.spark.rocketmq import decode
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.arrays import binaries, texts
from penstock.spark.rocketmq.decode import (
    TYPES,
    Properties,
    arrow_schema,
    decompressed,
    record_batch,
)
from penstock.spark.rocketmq.rocketmq_settings import COLUMNS, RocketmqSettings, is_system
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.rocketmq.stored import Spans, Stored
from penstock.spark.source_settings import SourceSettings
from tests.unit.spark.rocketmq.scripted_broker import STORED_MS, stored

NAMESRV = {"topic": "t", "namesrvaddr": "a:9876; b:9876"}


def test_name_servers_accounts_and_options_of_nsq() -> None:
    given = {**NAMESRV, "failondataloss": "false", "tls_root_ca_file": "ca.pem"}
    settings = RocketmqSettings.parse(given)
    assert settings.namesrv == ("a:9876", "b:9876")
    assert settings.directory == ("name server", ("a:9876", "b:9876"))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert not settings.fail_on_data_loss
    access = settings.access
    assert isinstance(access, BrokerAccess)
    assert (access.tls, access.same_port, access.account) == (True, True, None)
    given |= {"accesskey": "me", "secretkey": "hush-hush", "group": "g"}
    settings = RocketmqSettings.parse(given)
    access = settings.access
    assert isinstance(access, BrokerAccess)
    assert (access.account, access.group) == (Account("me", "hush-hush"), "g")
    assert "hush" not in repr(settings) + repr(access)


def test_a_penstock_node_is_asked_for_rocketmqs_view() -> None:
    settings = RocketmqSettings.parse({"topic": "t", "nsqd_http_address": "h:4151"})
    assert settings.access.dialect == "rocketmq"
    assert not isinstance(settings.access, BrokerAccess)
    assert settings.directory == ("nsqlookupd", ())


def test_names_of_topics_and_a_star_for_all_but_the_brokers_own() -> None:
    for topic in ("a.b", "%RETRY%group", "x" * 127):
        assert RocketmqSettings.parse({**NAMESRV, "topic": topic}).topics == (topic,)
    settings = RocketmqSettings.parse({**NAMESRV, "topic": "*"})
    assert settings.reads("t")
    assert not settings.reads("%RETRY%g")
    assert RocketmqSettings.parse({**NAMESRV, "topic": "%DLQ%g"}).reads("%DLQ%g")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "t"}, "say where to read: namesrvAddr"),
        ({**NAMESRV, "nsqd_http_address": "h:1"}, "namesrvAddr or addresses of Penstock nodes, no"),
        ({"topic": "t", "namesrvaddr": "here"}, "namesrvAddr must be host:port, .*not 'here'"),
        ({**NAMESRV, "accesskey": "me"}, "accessKey and secretKey are of use together only"),
        (
            {"topic": "t", "nsqd_http_address": "h:1", "accesskey": "a", "secretkey": "b"},
            "accessKey is of use with namesrvAddr only",
        ),
        ({**NAMESRV, "includeorigin": "true"}, "includeOrigin is for dead letters of NSQ"),
        ({**NAMESRV, "columns": "offset"}, "columns must be some of topic, body, keys, tags, prop"),
        ({**NAMESRV, "topic": "a b"}, "topic name 'a b' is invalid: a name is 1 to 255"),
        ({**NAMESRV, "namesrv": "a:1"}, "rocketmq knows no option namesrv; did you mean namesrvAd"),
        ({"topic": "t", "nsqd_http_address": "h:1", "lookupd_http_address": "l:1"}, "one of the t"),
    ],
)
def test_wrong_options(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        RocketmqSettings.parse(given)


def test_the_page_lists_the_options_that_differ_and_columns_are_those_of_the_decoder() -> None:
    shown = table(RocketmqSettings, beside=SourceSettings)
    named = [line.split("`")[1] for line in shown.strip().splitlines()[2:]]
    assert named == ["group", "namesrvAddr", "accessKey", "secretKey"]
    assert SCHEMA.fieldNames() == list(COLUMNS) == list(TYPES)


def test_what_the_broker_has_for_itself() -> None:
    own = [*sorted(names.SYSTEM_TOPICS), names.retry_topic("g"), names.dead_letter_topic("g")]
    assert [each for each in own if not is_system(each)] == []
    others = ["orders", "RETRY", "my_rmq_sys_topic", "SELF_TEST_TOPIC2"]
    assert [each for each in others if is_system(each)] == []


def spans(*pieces: tuple[int, int]) -> Spans:
    starts, ends = zip(*pieces, strict=True) if pieces else ((), ())
    return Spans(np.array(starts, np.int64), np.array(ends, np.int64))


def test_pieces_of_a_buffer() -> None:
    assert binaries(b"abcdef", spans((0, 2), (2, 2), (3, 6))).to_pylist() == [b"ab", b"", b"def"]
    assert binaries(b"abcdef", spans()).to_pylist() == []
    data = "\u00fc\u00e4".encode() + b"\xff!"
    assert texts(data, spans((0, 2), (2, 4))).to_pylist() == ["\u00fc", "\u00e4"]
    # What is no UTF-8 is replaced.
    assert texts(data, spans((0, 2), (4, 6))).to_pylist() == ["\u00fc", "\ufffd!"]


V4, V6 = Host(b"\x7f\0\0\1", 1), Host(bytes(15) + b"\1", 2)
PLAIN = StoredMessage("t", b"body", 3, 7, 1, V4, V4, 1_700_000_000_000, 1_700_000_000_001, "a\x01b")


def mixed() -> list[StoredMessage]:
    """Messages of all layouts: each host in each form, names of topics short and long."""
    return [
        dataclasses.replace(
            PLAIN, body=b"x" * number, queue_offset=number, born_host=born, store_host=store,
            born_ms=PLAIN.born_ms + number, store_ms=PLAIN.store_ms + 2 * number, topic=topic,
        )
        for number, (born, store, topic) in enumerate(
            (born, store, topic)
            for born in (V4, V6) for store in (V4, V6) for topic in ("t", "u" * 200, "")
        )
    ]  # fmt: skip


@pytest.mark.parametrize("messages", [mixed(), [PLAIN] * 5, []], ids=["mixed", "even", "none"])
def test_each_part_is_where_it_is(messages: list[StoredMessage]) -> None:
    data = b"".join(map(encode, messages))
    stored = Stored.parse(data)
    assert len(stored) == len(messages)
    assert stored.queue_offsets.tolist() == [each.queue_offset for each in messages]
    assert stored.born_ms.tolist() == [each.born_ms for each in messages]
    assert stored.store_ms.tolist() == [each.store_ms for each in messages]
    for spans, part in zip(stored.parts(), ("body", "properties"), strict=True):
        found = [data[start:end] for start, end in zip(*spans, strict=True)]
        wanted = [getattr(each, part) for each in messages]
        assert found == [each if isinstance(each, bytes) else each.encode() for each in wanted]


def test_those_between_offsets_are_views_of_one_buffer() -> None:
    stored = Stored.parse(b"".join(map(encode, mixed())))
    assert stored.at.dtype == np.int64
    assert stored.between(3, 6).queue_offsets.tolist() == [3, 4, 5]
    assert stored.between(3, 6).data is stored.data
    assert len(stored.between(50, 60)) == 0


def damaged(at: int, value: bytes) -> bytes:
    data = bytearray(encode(PLAIN) * 3)
    data[at : at + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK" * 20,
        encode(PLAIN)[:-1],
        encode(PLAIN) + b"more",
        damaged(0, b"\x7f"),
        damaged(4, b"\0"),
        damaged(84, b"\x7f"),
        damaged(84, b"\xff\xff\xff\xf0"),
        damaged(87, b"\5"),
    ],
)
def test_what_is_no_stored_message_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="is not a stored message, at byte"):
        Stored.parse(data).parts()


def parsed(*texts: bytes) -> Properties:
    """The properties of messages between whose properties other bytes lie."""
    between = b"\x01\x02x\x01y\x02"
    data = between + between.join(texts) + between
    starts, place = [], len(between)
    for text in texts:
        starts.append(place)
        place += len(text) + len(between)
    at = np.array(starts, np.int64)
    return Properties(data, Spans(at, at + np.array([len(text) for text in texts], np.int64)))


TEXTS = [
    "KEYS\x01a b\x02TAGS\x01T\x02",
    "KEYS\x01a b\x02TAGS\x01T",
    "",
    "TAGS\x01one\x02TAGS\x01two\x02=\x01=\x01=",
    "none\x01\x02\x01none\x02alone\x02\x02\x02KEYS\x01k\x02",
    "\u00fc\x01\u00e4\x02",
]


def test_all_of_them_as_java_reads_them() -> None:
    found = parsed(*(text.encode() for text in TEXTS)).maps().to_pylist()
    assert [sorted(each) for each in found] == [
        sorted(properties.parse(text).items()) for text in TEXTS
    ]


def test_one_of_them_and_messages_without_any() -> None:
    found = parsed(*(text.encode() for text in TEXTS))
    assert found.of("TAGS").to_pylist() == ["T", "T", None, "two", None, None]
    assert found.of("KEYS").to_pylist() == ["a b", "a b", None, None, "k", None]
    assert found.of("nowhere").to_pylist() == [None] * 6
    for count in (0, 3):
        found = parsed(*([b""] * count))
        assert found.maps().to_pylist() == [[]] * count
        assert found.of("KEYS").to_pylist() == [None] * count


@given(st.lists(st.text(alphabet="ab\x01\x02", max_size=12), max_size=8))
def test_any_text_is_read_as_the_protocol_reads_it(texts: list[str]) -> None:
    found = parsed(*(text.encode() for text in texts))
    wanted = [properties.parse(text) for text in texts]
    assert [sorted(each) for each in found.maps().to_pylist()] == [
        sorted(each.items()) for each in wanted
    ]
    assert found.of("a").to_pylist() == [each.get("a") for each in wanted]


PLACE = Place("t", "broker-a", 3)
ZLIB = int(SysFlag.COMPRESSED)


def test_every_column() -> None:
    data = stored(3, 5, b"body", KEYS="k", TAGS="T", a="b") + stored(3, 6, b"")
    first, second = record_batch(Stored.parse(data), PLACE, tuple(TYPES)).to_pylist()
    at = datetime.fromtimestamp(STORED_MS / 1000 + 5, UTC)
    assert first == {
        "topic": "t", "body": b"body", "keys": "k", "tags": "T",
        "properties": [("KEYS", "k"), ("TAGS", "T"), ("a", "b")],
        "born_timestamp": at.replace(second=4, microsecond=993_000), "store_timestamp": at,
        "broker": "broker-a", "queue": 3, "queue_offset": 5,
    }  # fmt: skip
    assert second["body"] == b""
    assert second["properties"] == []
    assert second["keys"] is second["tags"] is None


def test_the_schema_is_what_spark_expects() -> None:
    assert arrow_schema(tuple(TYPES)) == to_arrow_schema(SCHEMA, timezone="UTC")


@pytest.mark.parametrize(
    ("packed", "flags"),
    [
        (zlib.compress(b"z" * 5000), ZLIB),
        (zlib.compress(b"z" * 5000), ZLIB | 0x300),
        (pa.Codec("lz4").compress(b"z" * 5000, asbytes=True), ZLIB | 0x100),
        (pa.Codec("zstd").compress(b"z" * 5000, asbytes=True), ZLIB | 0x200),
    ],
    ids=["older clients", "zlib", "lz4", "zstd"],
)
def test_bodies_are_as_they_were_before_clients_compressed_them(packed: bytes, flags: int) -> None:
    assert decompressed(packed, flags) == b"z" * 5000


@pytest.mark.parametrize("flags", [ZLIB, ZLIB | 0x100, ZLIB | 0x200, ZLIB | 0x700])
def test_what_cannot_be_unpacked_stays_as_it_is(
    flags: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert decompressed(b"not compressed", flags) == b"not compressed"
    assert "a compressed body is left as it is" in caplog.text


def test_a_bomb_stays_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_BODY_BYTES_MAX", 1000)
    bomb = zlib.compress(bytes(1001))
    assert decompressed(bomb, ZLIB) == bomb
    assert decompressed(zlib.compress(bytes(1000)), ZLIB) == bytes(1000)


def test_bodies_that_unpack_to_too_much_are_left_for_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode, "_BODIES_BYTES_MAX", 2500)
    packed = [stored(3, offset, zlib.compress(bytes(1000)), ZLIB) for offset in range(5)]
    messages = Stored.parse(b"".join(packed[:1]) + stored(3, 1, b"plain") + b"".join(packed[2:]))
    found = record_batch(messages, PLACE, ("queue_offset", "body")).to_pylist()
    assert [len(row["body"]) for row in found] == [1000, 5, 1000]
    assert record_batch(messages, PLACE, ("queue_offset",)).num_rows == 5
