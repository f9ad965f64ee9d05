"""The opening of a connection as a conversation in frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.handshake import ANSWER_MAX, AnswerReader, Ask, Handshake, NotNsq
from penstock.nsq.client.errors import BadTopic, HandshakeFailed
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Error, Frame, FrameReader, Response, message
from tests.unit.nsq.protocol.cuts import cut


@given(
    texts=st.lists(st.binary(max_size=20), max_size=5),
    sizes=st.lists(st.integers(0, 12), max_size=20),
)
def test_any_cut(texts: list[bytes], sizes: list[int]) -> None:
    reader = AnswerReader()
    found: list[Frame] = []
    for part in cut(b"".join(map(frames.response, texts)), sizes):
        reader.receive_data(part)
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == [Response(text) for text in texts]
    assert reader.rest() == b""


@given(rest=st.binary(max_size=40))
def test_what_follows_is_not_looked_at(rest: bytes) -> None:
    reader = AnswerReader()
    reader.receive_data(frames.error("E_X") + rest)
    assert reader.next() == Error("E_X")
    assert reader.rest() == rest
    assert reader.rest() == b""
    assert reader.next() is None


def test_the_wrong_port() -> None:
    reader = AnswerReader()
    reader.receive_data(b"HTT")
    assert reader.next() is None
    reader.receive_data(b"P/1.1 400 Bad Request\r\n")
    with pytest.raises(NotNsq, match="unexpected HTTP response"):
        reader.next()


@pytest.mark.parametrize("size", [0, 3, ANSWER_MAX + 1, 2**32 - 1])
def test_sizes_that_no_answer_has(size: int) -> None:
    reader = AnswerReader()
    reader.receive_data(size.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"an answer of {size} bytes"):
        reader.next()


ADDRESS = "127.0.0.1:4150"
CONFIG = Config(client_id="c", hostname="h")


def begun(config: Config = CONFIG, topic: str = "", channel: str = "") -> Handshake:
    handshake = Handshake(ADDRESS, config, topic, channel)
    ask = handshake.begin()
    assert ask.what == handshake.awaited == "IDENTIFY"
    assert ask.command.startswith(b"  V2IDENTIFY\n")
    return handshake


def test_a_producer() -> None:
    handshake = begun()
    answer = b'{"max_rdy_count":50,"version":"1.3.0","news":1}'
    assert handshake.receive(Response(answer)) is None
    assert handshake.done
    assert (handshake.server.max_rdy_count, handshake.server.version) == (50, "1.3.0")


def test_a_consumer_with_auth_and_heartbeats() -> None:
    handshake = begun(Config(auth_secret="s"), "t", "c")
    assert handshake.receive(Response(b"_heartbeat_")) is None
    assert handshake.receive(Response(b'{"auth_required":true}')) == Ask("AUTH", b"AUTH\n\0\0\0\1s")
    assert handshake.receive(Response(b"_heartbeat_")) == Ask("AUTH", b"NOP\n")
    assert handshake.awaited == "AUTH"
    assert handshake.receive(Response(b"{}")) == Ask("SUB", b"SUB t c\n")
    assert not handshake.done
    assert handshake.receive(Response(b"OK")) is None
    assert handshake.done


def test_upgrades_come_in_order_and_before_auth() -> None:
    handshake = begun(Config(auth_secret="s"))
    answer = b'{"snappy":true,"deflate":true,"tls_v1":true,"auth_required":true}'
    asks = [handshake.receive(Response(answer))]
    while asks[-1] is not None and asks[-1].layer:
        asks.append(handshake.receive(Response(b"OK")))
    assert [ask.layer or ask.what for ask in asks if ask] == ["tls", "deflate", "snappy", "AUTH"]


def test_a_server_without_negotiation() -> None:
    handshake = begun()
    handshake.receive(Response(b"OK"))
    assert handshake.done
    assert handshake.server.max_rdy_count == 2500


def test_what_can_go_wrong() -> None:
    with pytest.raises(BadTopic):
        begun().receive(Error("E_BAD_TOPIC x"))
    with pytest.raises(HandshakeFailed, match=f"{ADDRESS}: Auth Required: "):
        begun().receive(Response(b'{"auth_required":true}'))
    with pytest.raises(HandshakeFailed, match="no JSON"):
        begun().receive(Response(b'{"auth'))
    reader = FrameReader()
    reader.receive_data(message(1, 1, b"0" * 16, b"x"))
    with pytest.raises(HandshakeFailed, match="a message instead of an answer to IDENTIFY"):
        begun().receive(reader.events()[0])
