"""The client's half of a connection against a node in memory."""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.net.tls.layers import PIECE
from penstock.net.tls.tls_layer import ServerTls
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.connect.wire import Wire, compression
from penstock.nsq.client.errors import (
    BadBody,
    BadTlsOptions,
    ClientError,
    HandshakeFailed,
    NotConnected,
    SubFailed,
    Unauthorized,
)
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.events import (
    Auth,
    Finish,
    Identify,
    Nop,
    Ready,
    Requeue,
    Subscribe,
    Touch,
)
from penstock.nsq.protocol.frames import Error, MessageBlock, Response
from penstock.testing.clock import FakeClock
from tests.conftest import BUSY
from tests.unit.net.certificates import Certificates
from tests.unit.nsq.client.memory_node import OK, MemoryNode, all_events, talk

ADDRESS = "localhost:4150"
COMBINATIONS = [
    tuple(filter(None, names))
    for names in itertools.product(("", "tls_v1"), ("", "deflate", "snappy"))
]
TEXT = b"".join(b"%d bottles of beer on the wall, " % number for number in range(3000))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def node_with(files: Certificates, *offers: str, **info: object) -> MemoryNode:
    return MemoryNode(*offers, tls=ServerTls(files.cert, files.key), **info)


def config_for(files: Certificates, *names: str, **options: object) -> Config:
    return Config(tls_root_ca_file=files.ca, **dict.fromkeys(names, True), **options)  # type: ignore[arg-type]


def begun(config: Config | None = None, topic: str = "", clock: Clock = SYSTEM_CLOCK) -> Wire:
    wire = Wire(ADDRESS, config or Config(), topic, "c" if topic else "", clock)
    wire.begin()
    return wire


def opened(node: MemoryNode, config: Config | None = None, topic: str = "") -> Wire:
    wire = begun(config, topic)
    assert talk(wire, node) == []
    assert wire.is_ready
    return wire


def message(number: int, body: bytes) -> bytes:
    return frames.message(7, 1, b"%016d" % number, body)


def told(wire: Wire, data: bytes) -> list[frames.Frame]:
    wire.receive_data(data)
    return all_events(wire)


def messages(found: list[frames.Frame]) -> int:
    return sum(block.count for block in found if isinstance(block, MessageBlock))


# --- layers


@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
@settings(max_examples=15, suppress_health_check=[*BUSY, HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 40), max_size=60))
def test_every_layer_however_the_stream_is_cut(
    files: Certificates, names: tuple[str, ...], sizes: list[int]
) -> None:
    node = node_with(files, "tls_v1", "deflate", "snappy")
    wire = begun(config_for(files, *names), "t")
    assert talk(wire, node, sizes) == []
    assert wire.is_ready
    wire.set_ready(9)
    node.say(message(1, b"a" * 500) + message(2, b"b"))
    found = talk(wire, node, sizes)
    assert [body for block in found for body in block.bodies()] == [b"a" * 500, b"b"]  # type: ignore[union-attr]
    assert node.asked[1:] == [Subscribe("t", "c"), Ready(9)]
    assert wire.state.messages == 2
    assert bool(wire.state.tls) == ("tls_v1" in names)
    assert wire.state.compression == "".join(name for name in names if name != "tls_v1")


def test_a_handshake_byte_by_byte(files: Certificates) -> None:
    node = node_with(files, "tls_v1", "snappy", auth_required=True)
    wire = begun(config_for(files, "tls_v1", "snappy", auth_secret="s"), "t")
    talk(wire, node, [1] * 5000)
    assert wire.is_ready
    assert [type(event) for event in node.asked] == [Identify, Auth, Subscribe]


def test_layers_that_are_not_offered_are_not_put_on(files: Certificates) -> None:
    wire = opened(node_with(files), Config(tls_v1=True, snappy=True))
    assert (wire.state.tls, wire.state.compression) == ("", "")


def test_many_bytes_out_of_few_come_piece_by_piece() -> None:
    node = MemoryNode("deflate")
    wire = opened(node, Config(deflate=True), "t")
    count = 64
    node.say(b"".join(message(n, bytes(PIECE)) for n in range(count)))
    packed = node.take()
    assert len(packed) < PIECE
    wire.receive_data(packed)
    first = messages(wire.events())
    assert 0 < first < 3
    assert first + messages(all_events(wire)) == count


def test_commands_of_one_pass_are_one_write_in_every_layer(files: Certificates) -> None:
    node = node_with(files, "snappy")
    wire = opened(node, config_for(files, "snappy"), "t")
    for number in range(50):
        wire.answer(encode.finish(b"%016x" % number))
    one = wire.take_output()
    assert len(one) < 50 * 21
    assert not wire.take_output()
    node.receive(one)
    (finish,) = [event for event in node.asked if isinstance(event, Finish)]
    assert list(finish.ids) == list(range(50))


# --- the handshake


def test_a_heartbeat_before_an_upgrade_is_not_answered() -> None:
    """The node may take the answer for the first bytes of the layer (NSQ spec 1.6)."""
    wire = begun(topic="t")
    wire.take_output()
    assert told(wire, frames.HEARTBEAT_FRAME) == []
    assert wire.take_output() == b""
    told(wire, frames.response(b"{}") + frames.HEARTBEAT_FRAME)
    assert wire.take_output() == b"SUB t c\nNOP\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unexpected HTTP response; is this the HTTP port"),
        (frames.response(b'{"max_rdy_count":"x"}'), 'has max_rdy_count "x"'),
        (frames.response(b'{"max_rdy'), "not JSON"),
        (message(1, b"x"), "a message instead of an answer to IDENTIFY"),
        (b"\0\0\0\x01", "an answer of 1 bytes"),
        (b"\x7f\xff\xff\xff", "an answer of 2147483647 bytes"),
        (b"\0\0\0\x06\0\0\0\x09OK", "not an NSQ frame"),
        (frames.response(b'{"auth_required":true}'), "Auth Required: the server requires auth"),
    ],
)
def test_what_is_no_node(answer: bytes, reason: str) -> None:
    for size in (1, len(answer)):
        wire = begun()
        parts = [answer[at : at + size] for at in range(0, len(answer), size)]
        with pytest.raises(HandshakeFailed, match=reason) as found:
            collections.deque((told(wire, part) for part in parts), maxlen=0)
        assert str(found.value).startswith(f"{ADDRESS}: ")


@pytest.mark.parametrize("name", ["tls_v1", "deflate", "snappy"])
@pytest.mark.parametrize("answer", [frames.response(b"KO"), frames.response(b"OK ")])
def test_upgrades_are_confirmed(files: Certificates, name: str, answer: bytes) -> None:
    node = node_with(files, name)
    node.upgrade_answer = answer
    wire = begun(config_for(files, name))
    shown = {"tls_v1": "TLS"}.get(name, name.title())
    with pytest.raises(HandshakeFailed, match=f"invalid response from {shown} upgrade"):
        talk(wire, node)


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        (Identify, "E_BAD_BODY IDENTIFY msg timeout (5) is invalid", BadBody),
        (Auth, "E_UNAUTHORIZED AUTH no authorizations found", Unauthorized),
        (Subscribe, "E_SUB_FAILED too many", SubFailed),
    ],
    ids=["identify", "auth", "sub"],
)
def test_refusals_are_the_servers_errors(kind: type, text: str, error: type[ClientError]) -> None:
    node = MemoryNode(auth_required=True)
    node.answers[kind] = frames.error(text)
    with pytest.raises(error, match=re.escape(text)):
        talk(begun(Config(auth_secret="s"), "t"), node)


def test_an_authorization_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.nsq.client")
    node = MemoryNode(auth_required=True)
    opened(node, Config(auth_secret="s"))
    assert f'({ADDRESS}) Auth accepted. Identity: "me"  Permissions: 2' in caplog.messages
    node = MemoryNode(auth_required=True)
    node.answers[Auth] = frames.response(b"[]")
    with pytest.raises(HandshakeFailed, match="the answer to AUTH is not a JSON object"):
        talk(begun(Config(auth_secret="s")), node)


def test_who_names_an_authority_gets_tls_or_nothing(
    files: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    for config, required in (
        (config_for(files, "tls_v1"), False),
        (Config(tls_v1=True, auth_secret="s"), True),
    ):
        with pytest.raises(HandshakeFailed, match="the server offers no TLS"):
            talk(begun(config), MemoryNode(auth_required=required))
    opened(MemoryNode(), Config(tls_v1=True))
    assert caplog.messages[-1].endswith("offers no TLS, the connection is in the clear")


def test_certificates_that_nobody_vouches_for(files: Certificates, tmp_path: Path) -> None:
    wire = begun(config_for(Certificates(tmp_path), "tls_v1"))
    with pytest.raises(HandshakeFailed, match="certificate signed by unknown authority"):
        talk(wire, node_with(files, "tls_v1"))
    assert wire.take_output()  # an alert


def test_files_are_read_before_anything_is_sent() -> None:
    with pytest.raises(BadTlsOptions, match="open /no/such: no such file"):
        Wire(ADDRESS, Config(tls_v1=True, tls_root_ca_file="/no/such"))
    Wire(ADDRESS, Config(tls_root_ca_file="/no/such"))


def test_what_follows_the_last_answer_is_for_the_owner() -> None:
    wire = begun(topic="t")
    block, error = told(wire, frames.response(b"OK") + OK + message(1, b"x") + frames.error("E_X"))
    assert isinstance(block, MessageBlock)
    assert block.bodies() == [b"x"]
    assert error == Error("E_X")


# --- after it


def test_heartbeats_are_answered_and_seen() -> None:
    clock = FakeClock()
    wire = begun(topic="t", clock=clock)
    talk(wire, node := MemoryNode())
    assert wire.state.last_heartbeat is None
    clock.advance(5_000_000_000)
    node.say(OK + frames.HEARTBEAT_FRAME + OK)
    assert talk(wire, node) == [Response(b"OK")] * 2
    assert node.asked[-1] == Nop()
    assert wire.state.last_heartbeat == clock.wall_ns() / 1e9
    assert wire.state.last_heartbeat_monotonic == clock.monotonic_ns() / 1e9
    assert told(wire, frames.HEARTBEAT_FRAME) == []


def test_answers_are_counted() -> None:
    wire = opened(node := MemoryNode(), topic="t")
    ids = [b"%016x" % number for number in range(3)]
    wire.answer(encode.finish(ids[0]) + encode.finish(ids[1]))
    wire.answer(encode.requeue(ids[2], 1500))
    wire.answer(encode.touch(ids[2]))
    wire.answer(b"")
    talk(wire, node)
    assert (wire.state.finished, wire.state.requeued) == (2, 1)
    assert [type(event) for event in node.asked[-3:]] == [Finish, Requeue, Touch]


def test_ready_is_capped_and_not_repeated() -> None:
    wire = opened(MemoryNode(max_rdy_count=5), topic="t")
    for count in (9, 5, 5, 0):
        wire.set_ready(count)
    assert wire.take_output() == b"RDY 5\nRDY 0\n"
    assert wire.state.ready == 0


def test_the_end_and_what_led_to_it() -> None:
    assert str(begun().lost()) == (
        f"{ADDRESS}: the server closed the connection before it answered (IDENTIFY)"
    )
    wire = opened(MemoryNode(), topic="t")
    assert wire.lost("broken pipe").reason == "broken pipe"
    told(wire, frames.error("E_FIN_FAILED FIN 0 failed ID not in flight"))
    assert wire.lost().reason == "the server closed the connection"
    assert told(wire, frames.CLOSE_WAIT_FRAME) == [Response(b"CLOSE_WAIT")]
    assert wire.state.left
    told(wire, frames.error("E_INVALID cannot SUB in current state"))
    assert wire.lost().reason == (
        "the server closed the connection after E_INVALID cannot SUB in current state"
    )


def test_the_farewell_of_tls_is_the_end(files: Certificates) -> None:
    node = node_with(files, "tls_v1")
    wire = opened(node, config_for(files, "tls_v1"))
    node.say(OK)
    node.out += node._layers.end()
    wire.receive_data(node.take())
    assert wire.events() == [Response(b"OK")]
    with pytest.raises(NotConnected, match="the server closed the connection"):
        wire.events()
    wire.end()
    assert wire.take_output()


def test_messages_that_are_too_long() -> None:
    wire = opened(MemoryNode(), Config(max_msg_size=100), "t")
    (block,) = told(wire, message(1, b"x" * 100))
    assert isinstance(block, MessageBlock)
    with pytest.raises(NotConnected, match="size 131 > 130"):
        told(wire, message(2, b"x" * 101))


@pytest.mark.parametrize("names", [(), ("deflate",), ("snappy",), ("tls_v1",)], ids="+".join)
@given(garbage=st.binary(min_size=8, max_size=300))
@settings(max_examples=20, suppress_health_check=[*BUSY, HealthCheck.function_scoped_fixture])
def test_garbage_ends_a_connection_with_a_reason(
    files: Certificates, names: tuple[str, ...], garbage: bytes
) -> None:
    wire = opened(node_with(files, *names), config_for(files, *names))
    wire.receive_data(b"\xff" * 8 + garbage)
    with pytest.raises(NotConnected) as found:
        all_events(wire)
    assert len(found.value.reason) > 5


@given(garbage=st.binary(max_size=300))
def test_garbage_instead_of_an_answer(garbage: bytes) -> None:
    wire = begun(topic="t")
    with contextlib.suppress(ClientError):
        told(wire, garbage)
    assert not wire.is_ready


@pytest.mark.parametrize(("said", "used"), [(1, 1), (9, 9), (0, 9), (10, 9)])
def test_the_level_is_the_nodes_where_it_is_one(said: int, used: int) -> None:
    layer = compression("deflate", Config(deflate_level=9), ServerInfo(deflate_level=said))
    assert layer.send(TEXT) == DeflateLayer(used).send(TEXT)
    assert DeflateLayer(1).send(TEXT) != DeflateLayer(9).send(TEXT)
