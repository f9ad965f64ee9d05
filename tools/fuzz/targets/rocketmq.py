"""What RocketMQ's clients, tools and brokers send: frames, headers, bodies, expressions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker.clients import orderly
from penstock.rocketmq.broker.state.clients import Clients, Heartbeat, Member
from penstock.rocketmq.broker.state.queue_locks import QueueLocks
from penstock.rocketmq.broker.state.sql92 import Expression, ExpressionError
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol import fastjson, registration
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import BodyError, FrameError
from penstock.rocketmq.protocol.frames import FrameReader, encode
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages import batch_body, message, properties
from tools.fuzz.streams import same_however_cut

from . import Target

FRAME_MAX = 4096
ERROR_MAX = 1000
"""Characters of an error, which is logged and sent: it quotes no more than a glimpse."""


def _refused(error: PenstockError) -> str:
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < ERROR_MAX
    return text


def commands(data: bytes) -> None:
    """The stream of one connection; each command can be answered, and read again."""
    same_however_cut(data, _commands)


def _commands(pieces: Iterator[bytes]) -> list[Any]:
    reader = FrameReader(FRAME_MAX)
    found: list[Any] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (command := reader.next_command()) is not None:
                found.append(command)
                _check(command)
            assert reader.unread < FRAME_MAX + 4
    except FrameError as error:
        found.append(_refused(error))
    return found


def _check(command: Command) -> None:
    for field in ("topic", "queueId", "a"):
        for read in (command.text, command.optional, command.int32, command.int64, command.boolean):
            try:
                read(field)
            except BodyError as error:
                _refused(error)
    answer = command.answer(1, command.remark, ext=command.ext, body=command.body)
    assert _again(answer) == answer


def _again(command: Command) -> Command:
    reader = FrameReader()
    reader.feed(encode(command))
    found = reader.next_command()
    assert found is not None
    return found


def json(data: bytes) -> None:
    """A body in fastjson's way: what we write of it is read as the same.

    Members that are null are left out, within keys as well, which may make keys equal.
    """
    try:
        value = fastjson.loads(data)
    except BodyError as error:
        _refused(error)
        return
    written = fastjson.dumps(fastjson.loads(fastjson.dumps(value)))
    assert fastjson.dumps(fastjson.loads(written)) == written
    try:
        fastjson.int_keys(value)
    except BodyError as error:
        _refused(error)


def stored_messages(data: bytes) -> None:
    """What a pull brings, with right checksums as well, which a sender may make up."""
    try:
        for found in message.decode_all(_sealed(data)):
            assert OffsetId.parse(found.offset_id).offset == found.physical_offset
            text = properties.parse(found.properties)
            assert properties.parse(properties.join(text)) == text
            again, _ = message.decode(message.encode(found))
            assert again.body == found.body
    except BodyError as error:
        _refused(error)


def _sealed(data: bytes) -> bytes:
    """The first record with the checksum of its body, if there is one."""
    if len(data) < 92:
        return data
    (size,) = struct.unpack_from(">i", data, 84)
    body = data[88 : 88 + max(0, size)]
    return data[:8] + struct.pack(">I", message.body_crc(body)) + data[12:]


def batches(data: bytes) -> None:
    """The body of a batch send: of what is read nothing is left out and nothing added."""
    try:
        found = batch_body.decode(data)
    except BodyError as error:
        _refused(error)
        return
    assert sum(22 + len(each.body) for each in found) <= len(data)
    assert batch_body.decode(batch_body.encode(found)) == found


def registrations(data: bytes) -> None:
    """What a broker tells of its topics, plain; what we write of it is read as the same."""
    _registration(lambda: registration.decode(data))


def compressed_registrations(data: bytes) -> None:
    """The same compressed, here before it is: behind zlib lies most of what can go wrong."""
    _registration(lambda: registration.decode_compressed(data))
    _registration(lambda: registration.decode_compressed(zlib.compress(data, 1)))


def _registration(decode: Callable[[], registration.Registration]) -> None:
    try:
        found = decode()
    except BodyError as error:
        _refused(error)
        return
    assert registration.decode(registration.encode(found)).topics.keys() == found.topics.keys()
    registration.decode_compressed(registration.encode_compressed(found, 500))


def heartbeats(data: bytes) -> None:
    """A heartbeat: what it says can be used, and shown."""
    try:
        beat = Heartbeat.parse(data)
    except (BodyError, ExpressionError) as error:
        _refused(error)
        return
    clients: Clients[int] = Clients()
    clients.beat(beat, Member(beat.client_id, 1, "127.0.0.1:1", Language.PYTHON, 0, 0))
    for group in clients.consumers.values():
        for subscription in group.subscriptions.values():
            fastjson.loads(fastjson.dumps(subscription.as_json()))
            subscription.matches("TAGS\x01A\x02a\x015\x02")
    assert clients.disconnected(1) is not None
    assert not clients.consumers
    assert not clients.producers


def lock_requests(data: bytes) -> None:
    """A request for locks on queues: those that are held can be named, and given back."""
    try:
        group, client, queues = orderly.asked(data)
    except BodyError as error:
        _refused(error)
        return
    locks = QueueLocks()
    held = locks.lock(group, client, queues, 0)
    assert set(held) == set(queues)
    fastjson.dumps(dict.fromkeys(held, 1))
    assert locks.lock(group, client + "x", queues, 0) == []
    locks.unlock(group, client, held)
    assert set(locks.lock(group, client + "x", queues, 0)) == set(queues)


def expressions(data: bytes) -> None:
    """A filter expression, on messages with and without what it asks for."""
    text = data.decode("utf-8", "surrogateescape")
    for kind in ("SQL92", "TAG"):
        try:
            found = Subscription.parse("t", text, kind)
        except (BodyError, ExpressionError) as error:
            _refused(error)
            continue
        for stored in ("", "a\x015\x02b\x01text\x02", "a\x01nan\x02b\x01" + "9" * 5000, text):
            assert isinstance(found.matches(stored), bool)


def expression_texts(data: bytes) -> None:
    """NOT turns TRUE into FALSE and back, and never makes both of them true."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        yes, no = Expression(f"({text})"), Expression(f"NOT ({text})")
    except ExpressionError as error:
        _refused(error)
        return
    for given in ({}, {"a": "5", "b": "text"}, {"a": "true", "b": "nan"}):
        assert not (yes.matches(given) and no.matches(given))


_HOST = Host(b"\x7f\0\0\1", 10911)
_HOST6 = Host(bytes(15) + b"\1", 10911)


def _stored(topic: str, body: bytes, host: Host = _HOST) -> bytes:
    return message.encode(
        message.StoredMessage(topic, body, 1, 7, 4096, host, host, 5, 6, "TAGS\x01A\x02KEYS\x01k")
    )


def _command(serialization: Serialization, **fields: Any) -> bytes:
    return encode(Command(310, 7, serialization=serialization, **fields))


_FRAMES = [
    _command(kind, ext={"topic": "t", "queueId": "1", "a": "x"}, body=b"body", remark="r") * 2
    + _command(kind)
    for kind in Serialization
]
_ODD_HEADERS = [
    b"{'code':\"11\",opaque:7,extFields:{topic:'T',n:[1,{}]},extra:{0:1}}",
    b'{"code":10,"extFields":{"d":4,"k":false,"f":null,"x":1.5},"language":3,"flag":2}',
]
_BROKER = registration.Registration(
    {"counter": 1, "timestamp": 2},
    {
        "t": registration.TopicConfig("t", attributes={"+a": "b"}),
        "u": registration.TopicConfig("u"),
    },
    ["f"],
)
_JSON_WORDS = [b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\u", b"\\ud800",
               b"null",
               b"1e999", b"-1", b"9" * 30, b"[" * 150, b"{" * 150, b"{1:2}", b"NaN", b"+-1",
               b"1.0"]  # fmt: skip

TARGETS = {
    "rocketmq_commands": Target(
        commands,
        [
            *_FRAMES,
            *(struct.pack(">iI", 4 + len(head), len(head)) + head for head in _ODD_HEADERS),
        ],
        [
            b"\0\0\0\x04",
            b"\0\0\0\0",
            b"\x01\0\0\x15",
            b"\xff" * 4,
            b"\x7f\xff\xff\xff",
            *_JSON_WORDS,
        ],
    ),
    "rocketmq_json": Target(
        json,
        [
            b'{0:"h:1",1:"h:2"}',
            b'{{"brokerName":"b","queueId":0,"topic":"T"}:7}',
            b"{'a':[1,-2.5e3,true,null],b:'\\x41\\u0041'}",
            b'{"a":{"b":[1,2,{"c":"d"}]}}',
        ],
        _JSON_WORDS,
    ),
    "rocketmq_messages": Target(
        stored_messages,
        [_stored("t", b"one") + _stored("u" * 200, b"two"), _stored("t", b"", _HOST6)],
        [b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\0\0\0\x30", b"\xff" * 4, b"\x7f\xff\xff\xff"],
    ),
    "rocketmq_locks": Target(
        lock_requests,
        [
            b'{"clientId":"c","consumerGroup":"g","mqSet":['
            b'{"brokerName":"b","queueId":0,"topic":"T"},{"brokerName":"b","queueId":1,'
            b'"topic":"T"}],"onlyThisBroker":false}',
        ],
        [b'"queueId":', b'"mqSet":null', *_JSON_WORDS],
    ),
    "rocketmq_batches": Target(
        batches,
        [
            batch_body.encode([batch_body.BatchedMessage(b"a", "K\x01v\x02")] * 3),
            batch_body.encode([batch_body.BatchedMessage(b"", "", -1)]),
        ],
        [b"\0\0\0\x16", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0"],
    ),
    "rocketmq_registrations": Target(
        registrations,
        [
            registration.encode(_BROKER),
            b'{"topicConfigTable":{"t":{"order":true,"topicSynFlag":1,"attributes":{"a":1}}}}',
            b'{"filterServerList":[1],"topicConfigSerializeWrapper":{"dataVersion":{}}}',
        ],
        [*_JSON_WORDS, b'"attributes":', b'"topicConfigTable":', b'"filterServerList":'],
    ),
    "rocketmq_compressed": Target(
        compressed_registrations,
        [
            registration.encode_compressed(_BROKER, 500),
            zlib.decompress(registration.encode_compressed(_BROKER, 500)),
        ],
        [b"\0\0\0\x01", b"\xff" * 4, b" ", b"0", *_JSON_WORDS],
    ),
    "rocketmq_heartbeats": Target(
        heartbeats,
        [
            b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_POP",'
            b'"messageModel":1,"consumeFromWhere":0,"subscriptionDataSet":[{"topic":"t",'
            b'"subString":"A||B","subVersion":"5","expressionType":"TAG"},{"topic":"u",'
            b'"subString":"a > 5","expressionType":"SQL92"}]}],"producerDataSet":[{"groupName":'
            b'"p"}]}',
        ],
        [*_JSON_WORDS, b'"groupName":', b'"subVersion":', "²".encode(), b'"consumerDataSet":'],
    ),
    "rocketmq_subscriptions": Target(
        expressions,
        [b"a > 5 AND b = 'text'", b"a BETWEEN 1 AND 5.5 OR b IN ('x','y')", b"A || B||C"],
        [b"NOT ", b"(", b")", b" IS NULL", b"'", b"''", b"-", b"9" * 30, b"1e999", b" || "],
    ),
    "rocketmq_expressions": Target(
        expression_texts,
        [
            b"a > 5 AND (b CONTAINS 'x' OR NOT b STARTSWITH 't')",
            b"a IS NOT NULL AND b NOT IN ('x', 'it''s') AND a NOT BETWEEN -1 AND 2",
            b"TRUE AND a = TRUE OR b <> 5L",
        ],
        [b"NOT ", b"(" * 30, b")", b" AND ", b" OR ", b" IS NULL", b"'", b"1e400", b"= ", b"<> "],
    ),
}
