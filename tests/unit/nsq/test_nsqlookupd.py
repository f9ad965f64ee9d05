"""nsqlookupd's protocol, its table of who has what, and its figures."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.metrics import nsqlookupd as metrics
from penstock.core.units import SECOND
from penstock.nsq.nsqlookupd.metrics import LookupdMetrics
from penstock.nsq.nsqlookupd.protocol import (
    MAGIC_V1,
    OK,
    PING,
    Command,
    CommandReader,
    Identify,
    LookupProtocolError,
    PeerInfo,
    Ping,
    Register,
    ReplyReader,
    Unregister,
    error_reply,
    identify,
    register,
    reply,
    unregister,
)
from penstock.nsq.nsqlookupd.registry import Producer, Registry
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse

# --- the protocol


PEER = {"hostname": "h1", "broadcast_address": "127.0.0.1", "tcp_port": 4150, "http_port": 4151,
        "version": "1.3.0"}  # fmt: skip
INFO = PeerInfo("h1", "127.0.0.1", 4150, 4151, "1.3.0")
IDENTIFY = identify(json.dumps(PEER).encode())


def commands(reader: CommandReader) -> Iterator[Command]:
    while (command := reader.next_command()) is not None:
        yield command


def read(data: bytes, **limits: int) -> list[Command]:
    reader = CommandReader(**limits)
    reader.receive_data(MAGIC_V1 + data)
    return list(commands(reader))


def refused(data: bytes, *, magic: bytes = MAGIC_V1, eof: bool = False, **limits: int) -> str:
    reader = CommandReader(**limits)
    reader.receive_data(magic + data)
    if eof:
        reader.receive_eof()
    with pytest.raises(LookupProtocolError) as caught:
        list(commands(reader))
    return str(caught.value)


def test_a_conversation() -> None:
    found = read(PING + IDENTIFY + register("t") + register("t", "c") + unregister("t", "c") + PING)
    assert found == [Ping(), Identify(INFO), Register("t", ""), Register("t", "c"),
                     Unregister("t", "c"), Ping()]  # fmt: skip


@given(st.integers(1, 40))
def test_any_cut_of_the_bytes_will_do(size: int) -> None:
    data = MAGIC_V1 + PING + IDENTIFY + register("t", "c") + PING
    reader = CommandReader()
    found: list[Command] = []
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        found += commands(reader)
    assert found == [Ping(), Identify(INFO), Register("t", "c"), Ping()]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\n", "E_INVALID invalid command \udcff"),
        (IDENTIFY + b"REGISTER  t\n", "E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (identify(b'{"tcp_port":1}'), "E_BAD_BODY IDENTIFY missing fields"),
        (b"IDENTIFY\n\xff\xff\xff\xff{}", "E_BAD_BODY IDENTIFY invalid body size -1"),
    ],
)
def test_refused(data: bytes, text: str) -> None:
    """The recorded exchanges of lookupd-tcp.jsonl have all others."""
    assert refused(data) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"IDENTIFY\n\0\0", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0\0\x14{", "E_BAD_BODY IDENTIFY failed to read body"),
    ],
)
def test_the_end_inside_a_body(data: bytes, text: str) -> None:
    assert refused(data, eof=True) == text
    assert read(data) == []


def test_the_end_elsewhere_is_silent() -> None:
    reader = CommandReader()
    reader.receive_data(b"  V1PIN")
    reader.receive_eof()
    assert list(commands(reader)) == []


def test_limits() -> None:
    assert refused(b"A" * 11, max_line=10) == "E_INVALID command line too long"
    assert refused(b"A" * 11 + b"\n", max_line=10) == "E_INVALID command line too long"
    assert refused(b"A" * 10 + b"\n", max_line=10) == "E_INVALID invalid command AAAAAAAAAA"
    assert refused(identify(b"x" * 11), max_body=10) == "E_BAD_BODY IDENTIFY invalid body size 11"


def test_encoding() -> None:
    assert register("t") == b"REGISTER t\n"
    assert unregister("t", "c") == b"UNREGISTER t c\n"
    assert reply(b"OK") == OK
    assert error_reply(LookupProtocolError("E \udcff")) == b"\0\0\0\3E \xff"


@given(st.lists(st.binary(max_size=20)), st.integers(1, 10))
def test_replies(answers: list[bytes], size: int) -> None:
    data = b"".join(map(reply, answers))
    reader = ReplyReader()
    found = []
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        while (answer := reader.next_reply()) is not None:
            found.append(answer)
    assert found == answers


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_replies_of_a_mad_size(size: int) -> None:
    reader = ReplyReader()
    reader.receive_data(struct.pack(">i", size))
    with pytest.raises(LookupProtocolError):
        reader.next_reply()


# --- who has what


INACTIVE = 300 * SECOND
LIFETIME = 45 * SECOND
TOPICS = st.sampled_from(["t", "u#ephemeral", "*"])
CHANNELS = st.sampled_from(["c", "d#ephemeral", "*"])
WHO = st.integers(0, 2)


class Registering(RuleBasedStateMachine):
    """A registry beside a model of it: who has which key, and until when it is hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.registry = Registry(self.clock, INACTIVE, LIFETIME)
        self.nodes = [
            Producer(f"127.0.0.1:{port}", PeerInfo("h", host, 4150, 4151, "1.3.0"))
            for port, host in enumerate(("h0", "h1", "::1"))
        ]
        self.seen: dict[int, int] = {}
        self.topics: dict[str, dict[int, int]] = {}
        """Of each topic the nodes that have it, with the end of their tombstones."""
        self.channels: dict[tuple[str, str], set[int]] = {}

    @property
    def now(self) -> int:
        return self.clock.monotonic_ns()

    @initialize()
    def begin(self) -> None:
        for who in range(3):
            self.speak(who)
            self.register(who, "t", "c")

    @rule(who=WHO)
    def speak(self, who: int) -> None:
        if who in self.seen:
            self.registry.touch(self.nodes[who])
        else:
            self.registry.connect(self.nodes[who])
        self.seen[who] = self.now

    @rule(who=WHO)
    def disconnect(self, who: int) -> None:
        self.registry.disconnect(self.nodes[who])
        self.seen.pop(who, None)
        for hidden_until in self.topics.values():
            hidden_until.pop(who, None)
        for having in self.channels.values():
            having.discard(who)

    @rule(who=WHO, topic=TOPICS, channel=st.just("") | CHANNELS)
    def register(self, who: int, topic: str, channel: str) -> None:
        if who in self.seen:
            self.registry.register(self.nodes[who], topic, channel)
            self.topics.setdefault(topic, {}).setdefault(who, self.now)
            if channel:
                self.channels.setdefault((topic, channel), set()).add(who)

    @rule(who=WHO, topic=TOPICS)
    def unregister_topic(self, who: int, topic: str) -> None:
        left = [key[1] for key in self.channels if key[0] == topic and who in self.channels[key]]
        assert sorted(self.registry.unregister_topic(self.nodes[who], topic)) == sorted(left)
        for channel in left:
            self.channels[topic, channel].discard(who)
        if topic in self.topics:
            self.topics[topic].pop(who, None)
            if not self.topics[topic] and "#" in topic:
                del self.topics[topic]

    @rule(who=WHO, topic=TOPICS, channel=CHANNELS)
    def unregister_channel(self, who: int, topic: str, channel: str) -> None:
        self.registry.unregister_channel(self.nodes[who], topic, channel)
        having = self.channels.get((topic, channel))
        if having is not None:
            having.discard(who)
            if not having and "#" in channel:
                del self.channels[topic, channel]

    @rule(topic=TOPICS, channel=st.just("") | CHANNELS)
    def create(self, topic: str, channel: str) -> None:
        self.topics.setdefault(topic, {})
        if channel:
            self.registry.create_channel(topic, channel)
            self.channels.setdefault((topic, channel), set())
        else:
            self.registry.create_topic(topic)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        self.registry.delete_topic(topic)
        self.topics.pop(topic, None)
        for key in [key for key in self.channels if key[0] == topic]:
            del self.channels[key]

    @rule(topic=TOPICS, channel=CHANNELS)
    def delete_channel(self, topic: str, channel: str) -> None:
        found = self.channels.pop((topic, channel), None) is not None
        assert self.registry.delete_channel(topic, channel) == found

    @rule(topic=TOPICS, who=WHO, bracketed=st.booleans(), port=st.sampled_from([4150, 4151, 4151]))
    def tombstone(self, topic: str, who: int, bracketed: bool, port: int) -> None:
        """An IPv6 address stands with or without brackets."""
        host = self.nodes[who].info.broadcast_address
        node = f"[{host}]:{port}" if bracketed and ":" in host else f"{host}:{port}"
        having = self.topics.get(topic, {})
        hidden = who in having and port == 4151
        assert self.registry.tombstone(topic, node) == hidden
        if hidden:
            having[who] = self.now + LIFETIME

    @rule(by=st.sampled_from([1, LIFETIME - 1, LIFETIME, INACTIVE - LIFETIME, INACTIVE]))
    def wait(self, by: int) -> None:
        self.clock.advance(by)

    @rule()
    def set_the_systems_time(self) -> None:
        """It hides nobody."""
        self.clock.set_wall(self.clock.wall_ns() + 10 * INACTIVE)

    @invariant()
    def it_is_the_model(self) -> None:
        active = {who for who, seen in self.seen.items() if self.now - seen <= INACTIVE}
        assert self.registry.topics() == sorted(self.topics)
        for topic in ("t", "u#ephemeral", "*", "nope"):
            having = self.topics.get(topic, {})
            shown = [self.nodes[who] for who in having if who in active and having[who] <= self.now]
            assert self.registry.topic_producers(topic) == shown
            assert self.registry.has_topic(topic) == (topic in self.topics)
            names = sorted(key[1] for key in self.channels if key[0] == topic)
            assert self.registry.channels(topic) == names
        assert {producer.remote_address: topics for producer, topics in self.registry.nodes()} == {
            self.nodes[who].remote_address: [
                (topic, self.topics[topic][who] > self.now)
                for topic in sorted(self.topics)
                if who in self.topics[topic]
            ]
            for who in active
        }
        keys = ["client::"] * bool(self.seen)
        keys += [f"topic:{topic}:" for topic, having in self.topics.items() if having]
        keys += [f"channel:{t}:{c}" for (t, c), having in self.channels.items() if having]
        assert sorted(key for key, _ in self.registry.entries()) == sorted(keys)
        figures = self.registry.figures()
        assert figures.producers == len(self.seen)
        assert figures.silent_producers == len(self.seen) - len(active)
        assert figures.channels == len(self.channels)


TestRegistering = Registering.TestCase


def test_a_tombstone_hides_for_its_lifetime() -> None:
    clock = FakeClock()
    registry, producer = Registry(clock, INACTIVE, LIFETIME), Producer("127.0.0.1:1", INFO)
    registry.connect(producer)
    registry.register(producer, "t", "c")
    assert registry.tombstone("t", "127.0.0.1:4151") == 1
    registry.register(producer, "t", "c")  # which clears nothing
    clock.advance(LIFETIME - 1)
    assert registry.topic_producers("t") == []
    assert registry.figures().tombstones == 1
    clock.advance(1)
    assert registry.topic_producers("t") == [producer]


def test_ephemeral_topics_leave_nothing_behind() -> None:
    registry = Registry(FakeClock(), INACTIVE, LIFETIME)
    producer = Producer("127.0.0.1:1", INFO)
    registry.connect(producer)
    for number in range(3):
        topic = f"reply-{number}#ephemeral"
        registry.register(producer, topic, "c#ephemeral")
        registry.unregister_channel(producer, topic, "c#ephemeral")
        registry.unregister_topic(producer, topic)
    assert not registry._topics
    assert not registry._channels
    assert not producer.topics


# --- figures


async def test_a_silent_producer_is_told_apart() -> None:
    clock = FakeClock()
    registry = Registry(clock, 300 * SECOND, 45 * SECOND)
    silent = Producer("1", PeerInfo("h", "h", 4150, 4151, "1.3.0"))
    registry.connect(silent)
    registry.register(silent, "t", "c")
    clock.advance(301 * SECOND)
    registry.connect(Producer("2", PeerInfo("h", "h", 4152, 4153, "1.3.0")))
    found = LookupdMetrics(registry, ())
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page[metrics.PRODUCERS.name].value() == 2
    assert page[metrics.SILENT_PRODUCERS.name].value() == 1
    assert page[metrics.EMPTY_TOPICS.name].value() == 1
    registry.disconnect(silent)
    assert registry.figures().producers == registry.gone_count == 1
