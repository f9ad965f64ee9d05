"""A real mqbroker among clients of RocketMQ's protocol that send nonsense, too much, or too little.

Beside them a steady client goes on: what it was told to be stored is there, whatever others did.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import COMMANDS, RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Serialization
from penstock.rocketmq.protocol.messages import message, properties
from penstock.testing.daemons import MqBroker, run_mqbroker
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import Victim, is_closed, pull_fields, send_fields, wait_until

MIB: Final = 1024 * 1024
GROWTH_MAX: Final = 200 * MIB
SEARCHES_MAX: Final = 5
"""A search ends after 3 s with what it has found, which on a busy machine may be nothing."""


class Broker(Victim):
    """An mqbroker that is to survive, and a client that it must not forget."""

    daemon: MqBroker

    def __init__(self, daemon: MqBroker) -> None:
        super().__init__(daemon)
        self.client = RawClient(daemon.port)
        self.stored: list[bytes] = []

    def reconnect(self) -> None:
        """The steady client comes back to a new process."""
        self.client.close()
        self.client = RawClient(self.daemon.port)

    def raw(self, data: bytes = b"") -> socket.socket:
        """A connection that has sent these bytes."""
        return self._open(self.daemon.port, data)

    def store(self) -> None:
        """One more message of the steady client."""
        body = b"steady %d" % len(self.stored)
        answer = self.client.ask(**send_fields("steady"), body=body)
        assert (answer.code, answer.ext and answer.ext["queueOffset"]) == (
            0,
            str(len(self.stored)),
        ), answer
        self.stored.append(body)

    def check_alive(self) -> None:
        """It stores, gives back all that it said it had stored, and its log tells of no bug."""
        self.store()
        assert pull_all(self.client, "steady") == self.stored
        self.check_log()


def pull_all(client: RawClient, topic: str) -> list[bytes]:
    """The bodies in queue 0 of a topic."""
    found: list[bytes] = []
    while (answer := client.ask(**pull_fields(topic, len(found)))).code == 0:
        found += [each.body for each in message.decode_all(answer.body)]
    assert answer.code == 19, answer
    return found


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    lengths = struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header))
    return lengths + header + body


def encoded(serialization: Serialization = Serialization.JSON, **fields: Any) -> bytes:
    """The frame of a request; ``code``, ``body`` and ``opaque`` are its own."""
    code, body = fields.pop("code"), fields.pop("body", b"")
    opaque = fields.pop("opaque", 1)
    ext = {name: str(value) for name, value in fields.items()}
    return frames.encode(Command(code, opaque, ext, body, serialization=serialization))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with run_mqbroker() as daemon:
        made = Broker(daemon)
        yield made
        made.client.close()


# --- what is no frame -------------------------------------------------------------------------

JSON_HEADER = b'{"code":34,"opaque":1,"flag":0,"language":"JAVA","version":1}'
BINARY_HEADER = struct.pack(">hBhii", 34, 0, 1, 1, 0)

NO_FRAMES = {
    "negative length": struct.pack(">i", -1),
    "length 0": bytes(4),
    "length 3": struct.pack(">i", 3) + bytes(8),
    "more than 16 MiB": struct.pack(">i", 16 * MIB + 1),
    "length of HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "header longer than the frame": struct.pack(">iI", 20, 17) + bytes(16),
    "unknown serialisation": frame(JSON_HEADER, kind=7),
    "no JSON": frame(b"{" * 50),
    "deep JSON": frame(b'{"a":' * 60_000),
    "JSON of another kind": frame(b"[]"),
    "no UTF-8 outside of texts": frame(b'{"code":34,\xff}'),
    "code that is not a number": frame(b'{"code":"x","opaque":1}'),
    "no header at all": frame(b""),
    "binary header cut short": frame(BINARY_HEADER, kind=1),
    "binary remark longer than the header": frame(
        BINARY_HEADER + struct.pack(">i", 1000) + bytes(8), kind=1
    ),
    "binary field longer than the header": frame(
        BINARY_HEADER + struct.pack(">iih", 0, 6, 1000) + bytes(4), kind=1
    ),
    "negative binary length": frame(BINARY_HEADER + struct.pack(">ii", 0, -4) + b"abcd", kind=1),
}


@pytest.mark.parametrize("name", NO_FRAMES)
def test_what_is_no_frame_ends_the_connection(broker: Broker, name: str) -> None:
    with broker.raw(NO_FRAMES[name]) as sock:
        assert is_closed(sock)
    broker.check_alive()


def test_frames_before_one_without_sense_still_count(broker: Broker) -> None:
    good = encoded(**send_fields("before"), body=b"kept")
    with broker.raw(good + good + NO_FRAMES["no JSON"]) as sock:
        while sock.recv(65536):
            pass
    assert pull_all(broker.client, "before") == [b"kept", b"kept"]
    broker.check_alive()


def test_noise(broker: Broker) -> None:
    dice = random.Random(11)
    starts = [b"", bytes(4), struct.pack(">i", 3000), struct.pack(">iI", 3000, 200), b"\x16\x03"]
    for number in range(150):
        with broker.raw() as sock:
            try:
                sock.sendall(starts[number % 5] + dice.randbytes(dice.choice((1, 50, 5000))))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                continue
    broker.check_alive()


def test_spoilt_requests_are_answered_or_end_the_connection(broker: Broker) -> None:
    dice = random.Random(12)
    whole = encoded(**send_fields("spoilt", properties=properties.join({"KEYS": "k"})), body=b"x")
    binary = encoded(Serialization.BINARY, **pull_fields("spoilt", 0))
    for number in range(300):
        data = bytearray((whole, binary)[number % 2])
        for _ in range(dice.choice((1, 2, 8))):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        with broker.raw(bytes(data)) as sock:
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    broker.check_alive()


# --- requests without sense -------------------------------------------------------------------

SILENT = {RequestCode.END_TRANSACTION}
"""Codes whose requests may go unanswered: a producer that does not know waits for nothing."""
BY_CODE = {kind.code.value: kind for kind in COMMANDS}
OF_BROKER = sorted(code for code, kind in BY_CODE.items() if kind.server == "broker")
NONSENSE = ["x", "-1", "1e9", "9" * 30, "9" * 5000, " 1", "1_0", "\u0661", "\u0000", "\U0001f4a9",
            "a" * 3000, "%RETRY%", "../..", "true", "-9223372036854775808",
            "9223372036854775807", "2147483648"]  # fmt: skip
BODIES = [b"", b"\xff", b"null", b"[", b"{}", b'{"clientId":1}', b"[" * 9000, b'{"a":' * 9000,
          b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
          b'{"mqSet":[{"queueId":"x"}],"clientId":"c","consumerGroup":"g"}',
          bytes(100)]  # fmt: skip


@pytest.mark.parametrize("serialization", Serialization)
@pytest.mark.parametrize("code", [0, 1, 13, 44, 99, 9999, 32767, -1])
def test_unknown_codes_are_answered_in_javas_words(
    broker: Broker, code: int, serialization: Serialization
) -> None:
    answer = broker.client.ask(code, serialization_=serialization)
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")
    assert answer.serialization == serialization


@pytest.mark.parametrize("code", OF_BROKER)
def test_requests_without_sense_are_answered_in_plain_words(broker: Broker, code: int) -> None:
    kind = BY_CODE[code]
    names = [*kind.required, *kind.optional]
    client = RawClient(broker.daemon.port)
    requests: list[tuple[dict[str, str], bytes]] = [({}, body) for body in BODIES]
    requests += [(dict.fromkeys(names, value), b"") for value in NONSENSE]
    for name in names:
        sound = dict.fromkeys(names, "1")
        requests += [({**sound, name: value}, b"x") for value in NONSENSE]
        del sound[name]
        requests.append((sound, b"x"))
    for fields, body in requests:
        for serialization in Serialization:
            if serialization is Serialization.BINARY and code > 0x7FFF:
                continue
            request = client.request(code, body, **fields, serialization_=serialization)
            client.send(frames.encode(request))
            if code in SILENT:
                continue
            while (answer := client.next_command()).opaque != request.opaque:
                assert not answer.is_response, (fields, body, answer)
            assert answer.is_response
            assert "Traceback" not in (answer.remark or "")
    assert client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).code == 0
    client.close()
    broker.check_alive()


def test_one_way_requests_without_sense_are_not_answered(broker: Broker) -> None:
    client = RawClient(broker.daemon.port)
    for code in (*OF_BROKER, 9999):
        client.send(frames.encode(client.request(code, b"\xff", flag_=ONE_WAY)))
    answer = client.ask(9999)
    assert answer.code == 3
    assert not [each for each in client.requests if each.is_response]
    client.close()
    broker.check_alive()


# --- messages that are too large, or go nowhere -----------------------------------------------


def test_messages_that_are_too_large_are_refused(broker: Broker) -> None:
    client = broker.client
    too_large = client.ask(**send_fields("large"), body=bytes(4 * MIB + 1))
    assert too_large.code == 13
    assert "the message is illegal" in (too_large.remark or "")
    assert client.ask(**send_fields("large"), body=bytes(4 * MIB)).code == 0
    text = properties.join({"a": "b" * 32_766})
    assert client.ask(**send_fields("large", properties=text), body=b"x").code == 13
    umlauts = properties.join({"a": "ä" * 16_383})
    assert client.ask(**send_fields("large", properties=umlauts), body=b"x").code == 13
    broker.check_alive()


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("", "The specified topic is blank."),
        ("  ", "The specified topic is blank."),
        ("a b", "The specified topic[a b] contains illegal characters, allowing only "),
        ("../../x", "The specified topic[../../x] contains illegal characters, allowing only "),
        ("ä", "The specified topic[ä] contains illegal characters, allowing only "),
        ("t\0", "contains illegal characters, allowing only "),
        ("t" * 128, "The specified topic is longer than topic max length 127."),
    ],
)
def test_topics_with_impossible_names_are_refused(broker: Broker, topic: str, words: str) -> None:
    answer = broker.client.ask(**send_fields(topic), body=b"x")
    assert answer.code == 1
    assert words in (answer.remark or "")


def entry(body: bytes, total: int | None = None) -> bytes:
    """One message of a batch."""
    rest = struct.pack(">iiii", 0, 0, 0, len(body)) + body + struct.pack(">h", 0)
    return struct.pack(">i", 4 + len(rest) if total is None else total) + rest


BAD_BATCHES = {
    "empty": b"",
    "cut": entry(b"x" * 10)[:-3],
    "cut length": entry(b"x") + b"\0\0",
    "negative size": entry(b"x", -5),
    "size 0": entry(b"x", 0),
    "size beyond": entry(b"x", 1 << 30),
    "noise": bytes(range(256)),
    "too large": entry(b"") * 200_000,
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_batches_without_sense_are_refused_whole(broker: Broker, name: str) -> None:
    fields = send_fields("batches", batch="true")
    assert broker.client.ask(**fields, body=entry(b"first") * 2).code == 0
    before = pull_all(broker.client, "batches")
    answer = broker.client.ask(**fields, body=entry(b"good") + BAD_BATCHES[name])
    if name == "empty":
        assert answer.code == 0
        return
    assert answer.code in (1, 13)
    assert answer.remark
    assert pull_all(broker.client, "batches") == before
    broker.check_alive()


# --- streams that are cut ---------------------------------------------------------------------


def test_a_stream_may_end_at_any_byte(broker: Broker) -> None:
    """What came whole is stored, once; what did not is not."""
    first, second = (
        encoded(**send_fields("cuts"), body=b"%d" % number, opaque=number) for number in (1, 2)
    )
    stream = first + second
    wanted = []
    for cut in range(0, len(stream) + 1, 5):
        with broker.raw(stream[:cut]) as sock:
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        wanted += [b"1"] if len(first) <= cut else []
        wanted += [b"2"] if len(stream) <= cut else []
    with broker.raw() as sock:
        for byte in stream:
            sock.sendall(bytes((byte,)))
        reader, answers = frames.FrameReader(), 0
        while answers < 2:
            reader.feed(sock.recv(65536))
            while reader.next_command() is not None:
                answers += 1
    assert pull_all(broker.client, "cuts") == [*wanted, b"1", b"2"]
    broker.check_alive()


def test_half_frames_hold_up_nobody(broker: Broker, stack: ExitStack) -> None:
    whole = encoded(**send_fields("half"), body=bytes(MIB))
    memory = broker.rss
    slow = [stack.enter_context(broker.raw(whole[: 5 + number])) for number in range(100)]
    slow += [stack.enter_context(broker.raw(struct.pack(">iI", 16 * MIB, 10))) for _ in range(100)]
    started = time.monotonic()
    for number in range(50):
        slow[number].sendall(b"x")
        broker.store()
    assert time.monotonic() - started < 120
    assert broker.rss - memory < GROWTH_MAX / 4
    broker.check_alive()


def test_answers_that_nobody_reads_take_bounded_memory(broker: Broker, stack: ExitStack) -> None:
    client = broker.client
    for _ in range(4):
        assert client.ask(**send_fields("unread"), body=bytes(MIB)).code == 0
    memory = broker.rss
    pull = encoded(**pull_fields("unread", 0))
    for _ in range(8):
        sock = stack.enter_context(broker.raw())
        sock.settimeout(0.2)
        try:
            for _ in range(3000):
                sock.sendall(pull)
        except TimeoutError:
            pass
    # A connection holds what fills its buffer, and one answer more.
    assert broker.rss - memory < 8 * 2 * MIB + GROWTH_MAX / 4
    broker.check_alive()


# --- too many ---------------------------------------------------------------------------------


def test_thousands_of_pulls_of_one_connection_are_held_and_served(broker: Broker) -> None:
    pulls = 5000
    assert broker.client.ask(**send_fields("held"), body=b"first").code == 0
    memory = broker.rss
    client = RawClient(broker.daemon.port)
    waiting = pull_fields("held", 1, sysFlag=2 | 4, suspendTimeoutMillis=600_000)
    sent = set()
    for _ in range(pulls):
        code = waiting["code"]
        request = client.request(code, **{n: v for n, v in waiting.items() if n != "code"})
        sent.add(request.opaque)
        client.send(frames.encode(request))
    assert client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).code == 0
    broker.check_alive()
    assert broker.rss - memory < GROWTH_MAX
    assert broker.client.ask(**send_fields("held"), body=b"second").code == 0
    while sent:
        answer = client.next_command()
        assert answer.code == 0
        sent.remove(answer.opaque)
    client.close()
    broker.check_alive()


def test_pulls_of_clients_that_are_gone_are_forgotten(broker: Broker) -> None:
    assert broker.client.ask(**send_fields("gone"), body=b"first").code == 0
    files = broker.open_files
    waiting = pull_fields("gone", 1, sysFlag=2 | 4, suspendTimeoutMillis=600_000)
    for _ in range(200):
        with broker.raw(encoded(**waiting)):
            pass
    assert broker.client.ask(**send_fields("gone"), body=b"second").code == 0
    broker.check_alive()
    assert wait_until(lambda: broker.open_files <= files + 10)


def test_a_flood_of_groups_and_clients(broker: Broker) -> None:
    memory = broker.rss
    client = RawClient(broker.daemon.port)
    for number in range(1500):
        body = (
            b'{"clientID":"c%d","producerDataSet":[{"groupName":"p%d"}],"consumerDataSet":[{'
            b'"groupName":"flood","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
            b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"t%d",'
            b'"subString":"*","subVersion":1}]}]}' % (number, number, number)
        )
        assert client.ask(RequestCode.HEART_BEAT, body).code in (0, 1, 2)
    assert broker.rss - memory < GROWTH_MAX
    client.close()
    broker.check_alive()


def test_a_flood_of_topics_and_keys(broker: Broker) -> None:
    memory = broker.rss
    client = RawClient(broker.daemon.port)
    for number in range(60):
        words = " ".join(f"k{number}-{word}" for word in range(1000))
        text = properties.join({"KEYS": words})
        answer = client.ask(**send_fields(f"flood-{number}", properties=text), body=b"x")
        assert answer.code == 0, answer
    assert broker.rss - memory < GROWTH_MAX
    for _ in range(SEARCHES_MAX):
        found = client.ask(
            RequestCode.QUERY_MESSAGE, topic="flood-7", key="k7-999", maxNum=32, beginTimestamp=0,
            endTimestamp=1 << 60,
        )  # fmt: skip
        if found.code == 0:
            break
    assert found.code == 0
    assert [each.body for each in message.decode_all(found.body)] == [b"x"]
    client.close()
    broker.check_alive()


def test_what_was_acknowledged_outlives_it_all(broker: Broker) -> None:
    broker.check_alive()
    broker.daemon.kill()
    broker.daemon.start()
    broker.reconnect()
    broker.check_alive()
