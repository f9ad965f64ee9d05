"""nsqlookupd's protocol, its table of who has what, its figures and its options."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.metrics import nsqlookupd as metrics
from penstock.core.settings.options import load
from penstock.core.units import MINUTE, SECOND
from penstock.nsq.nsqlookupd.metrics import LookupdMetrics
from penstock.nsq.nsqlookupd.options import LookupdOptions
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


PEER = {
    "hostname": "h1",
    "broadcast_address": "127.0.0.1",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}
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
    assert found == [
        Ping(),
        Identify(INFO),
        Register("t", ""),
        Register("t", "c"),
        Unregister("t", "c"),
        Ping(),
    ]


@given(st.integers(1, 40))
def test_any_cut_of_the_bytes_will_do(size: int) -> None:
    data = MAGIC_V1 + PING + IDENTIFY + register("t", "c") + PING
    reader = CommandReader()
    found: list[Command] = []
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        found += commands(reader)
    assert found == [Ping(), Identify(INFO), Register("t", "c"), Ping()]


@pytest.mark.parametrize("line", [b" \t PING \r\n", b"PING x\n", b"PING\r\n"])
def test_lines_are_trimmed_and_surplus_parameters_ignored(line: bytes) -> None:
    assert read(line) == [Ping()]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"REGISTER t \n", Register("t", "")),
        (b"REGISTER t  c\n", Register("t", "")),
        (b"REGISTER t c x\n", Register("t", "c")),
        (b"UNREGISTER t#ephemeral c#ephemeral\n", Unregister("t#ephemeral", "c#ephemeral")),
    ],
)
def test_parameters(line: bytes, command: Command) -> None:
    assert read(IDENTIFY + line)[1:] == [command]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\n", "E_INVALID invalid command "),
        (b"ping\n", "E_INVALID invalid command ping"),
        (b"FOO bar\n", "E_INVALID invalid command FOO"),
        (b"\xff\n", "E_INVALID invalid command \udcff"),
        (b"REGISTER t\n", "E_INVALID client must IDENTIFY"),
        (b"UNREGISTER\n", "E_INVALID client must IDENTIFY"),
        (IDENTIFY * 2, "E_INVALID cannot IDENTIFY again"),
        (IDENTIFY + b"REGISTER\n", "E_INVALID REGISTER insufficient number of params"),
        (IDENTIFY + b"REGISTER  t\n", "E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (IDENTIFY + b"REGISTER a'b\n", "E_BAD_TOPIC REGISTER topic name 'a'b' is not valid"),
        (
            IDENTIFY + b"UNREGISTER t c!\n",
            "E_BAD_CHANNEL UNREGISTER channel name 'c!' is not valid",
        ),
        (b"IDENTIFY\n\xff\xff\xff\xff{}", "E_BAD_BODY IDENTIFY invalid body size -1"),
        (identify(b""), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify(b"[]"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify(b"null"), "E_BAD_BODY IDENTIFY missing fields"),
    ],
)
def test_refused(data: bytes, text: str) -> None:
    assert refused(data) == text


@pytest.mark.parametrize("field", ["broadcast_address", "tcp_port", "http_port", "version"])
def test_a_field_that_matters_is_missing(field: str) -> None:
    without = {name: value for name, value in PEER.items() if name != field}
    assert refused(identify(json.dumps(without).encode())) == "E_BAD_BODY IDENTIFY missing fields"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"IDENTIFY\n", "E_BAD_BODY IDENTIFY failed to read body size"),
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


def test_bad_magic() -> None:
    assert refused(PING, magic=b"  V2") == "E_BAD_PROTOCOL"


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


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(clock, INACTIVE, LIFETIME)


def join(registry: Registry, port: int = 1, address: str = "127.0.0.1") -> Producer:
    producer = Producer(f"127.0.0.1:{port}", PeerInfo("h", address, 4150, 4151, "1.3.0"))
    registry.connect(producer)
    return producer


def keys(registry: Registry) -> list[str]:
    return sorted(key for key, _ in registry.entries())


def test_register_enters_topic_and_channel(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "t", "c")
    registry.register(producer, "a")
    assert registry.topics() == ["a", "t"]
    assert registry.channels("t") == ["c"]
    assert registry.channels("a") == registry.channels("nope") == []
    assert registry.topic_producers("t") == [producer]
    assert registry.nodes() == [(producer, [("a", False), ("t", False)])]
    assert keys(registry) == ["channel:t:c", "client::", "topic:a:", "topic:t:"]


def test_disconnect_leaves_the_keys(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "e#ephemeral", "f#ephemeral")
    registry.disconnect(producer)
    registry.disconnect(producer)
    assert registry.topics() == ["e#ephemeral", "t"]
    assert registry.channels("e#ephemeral") == ["f#ephemeral"]
    assert registry.topic_producers("t") == []
    assert registry.nodes() == []
    assert keys(registry) == []


def test_unregister_channel(registry: Registry) -> None:
    one, two = join(registry, 1), join(registry, 2)
    for producer in (one, two):
        registry.register(producer, "t", "c")
        registry.register(producer, "t", "e#ephemeral")
        registry.unregister_channel(producer, "t", "c")
    registry.unregister_channel(one, "t", "e#ephemeral")
    registry.unregister_channel(one, "nope", "nope")
    assert registry.channels("t") == ["c", "e#ephemeral"]
    registry.unregister_channel(two, "t", "e#ephemeral")
    assert registry.channels("t") == ["c"]
    assert registry.topic_producers("t") == [one, two]


def test_unregister_topic(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "e#ephemeral", "c")
    assert registry.unregister_topic(producer, "t") == ["c"]
    assert registry.unregister_topic(producer, "e#ephemeral") == ["c"]
    assert registry.unregister_topic(producer, "nope") == []
    assert registry.topics() == ["t"]
    assert registry.channels("t") == registry.channels("e#ephemeral") == ["c"]
    assert registry.nodes() == [(producer, [])]


def test_ephemeral_topics_leave_nothing_behind(registry: Registry) -> None:
    producer = join(registry)
    for number in range(3):
        topic = f"reply-{number}#ephemeral"
        registry.register(producer, topic, "c#ephemeral")
        registry.unregister_channel(producer, topic, "c#ephemeral")
        registry.unregister_topic(producer, topic)
    assert not registry._topics
    assert not registry._channels
    assert not producer.topics


def test_a_silent_producer_is_hidden_until_it_speaks(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    clock.advance(INACTIVE)
    assert registry.topic_producers("t") == [producer]
    clock.advance(1)
    assert registry.topic_producers("t") == []
    assert registry.nodes() == []
    assert keys(registry) == ["client::", "topic:t:"]
    registry.touch(producer)
    assert registry.topic_producers("t") == [producer]
    assert producer.last_update == clock.wall_ns()


def test_setting_the_systems_time_hides_nobody(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    clock.set_wall(clock.wall_ns() + 10 * INACTIVE)
    assert registry.topic_producers("t") == [producer]


def test_tombstone_hides_for_its_lifetime(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "u")
    assert registry.tombstone("t", "127.0.0.1:4151") == 1
    assert registry.tombstone("t", "127.0.0.1:4150") == 0
    assert registry.tombstone("nope", "127.0.0.1:4151") == 0
    assert registry.topic_producers("t") == []
    assert registry.topic_producers("u") == [producer]
    assert registry.nodes() == [(producer, [("t", True), ("u", False)])]
    registry.register(producer, "t", "c")  # registering again clears nothing
    clock.advance(LIFETIME - 1)
    assert registry.topic_producers("t") == []
    clock.advance(1)
    assert registry.topic_producers("t") == [producer]


def test_unregistering_clears_a_tombstone(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    registry.tombstone("t", "127.0.0.1:4151")
    registry.unregister_topic(producer, "t")
    assert registry.topic_producers("t") == []
    registry.register(producer, "t")
    assert registry.topic_producers("t") == [producer]


@pytest.mark.parametrize("node", ["::1:4151", "[::1]:4151"])
def test_tombstone_of_an_ipv6_node(registry: Registry, node: str) -> None:
    registry.register(join(registry, address="::1"), "t")
    assert registry.tombstone("t", node) == 1


def test_edits_by_hand(registry: Registry) -> None:
    registry.create_channel("t", "c")
    registry.create_topic("u")
    assert registry.topics() == ["t", "u"]
    assert registry.has_topic("u")
    assert registry.delete_channel("t", "c")
    assert not registry.delete_channel("t", "c")
    assert not registry.delete_channel("nope", "c")
    assert registry.topics() == ["t", "u"]
    registry.delete_topic("t")
    registry.delete_topic("t")
    assert registry.topics() == ["u"]


def test_deleting_a_topic_that_somebody_has(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.delete_topic("t")
    assert not registry.has_topic("t")
    assert registry.channels("t") == []
    assert registry.nodes() == [(producer, [])]
    registry.register(producer, "t")
    assert registry.topic_producers("t") == [producer]
    registry.disconnect(producer)


def test_a_star_is_a_name_like_any_other(registry: Registry) -> None:
    registry.register(join(registry), "t", "c")
    assert not registry.has_topic("*")
    assert registry.channels("*") == []
    assert registry.tombstone("*", "127.0.0.1:4151") == 0
    registry.delete_topic("*")
    assert registry.has_topic("t")


# --- figures and options


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


def test_defaults_are_the_originals() -> None:
    options = load(LookupdOptions, [], "nsqlookupd")
    assert options.tcp_address == "0.0.0.0:4160"
    assert options.http_address == "0.0.0.0:4161"
    assert options.broadcast_address == os.uname().nodename
    assert options.inactive_producer_timeout == 5 * MINUTE
    assert options.tombstone_lifetime == 45 * SECOND
    assert options.log_prefix == "[nsqlookupd] "


def test_every_flag_of_the_original_is_taken() -> None:
    flags = ["--tcp-address=a", "-http-address", "b", "--broadcast-address=c", "--verbose"]
    flags += ["--inactive-producer-timeout=3s", "--tombstone-lifetime=1m30s", "--log-level=debug"]
    options = load(LookupdOptions, [*flags, "--log-prefix=x"], "nsqlookupd")
    assert (options.tcp_address, options.http_address) == ("a", "b")
    assert options.tombstone_lifetime == 90 * SECOND
