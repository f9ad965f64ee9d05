"""The opening of a connection, without a socket."""

from __future__ import annotations

import pytest

from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import BadTopic, ClientError
from penstock.nsq.client.handshake import Handshake
from penstock.nsq.protocol.frames import Error, FrameReader, Response, message

SETTINGS = Config(client_id="c", hostname="h")


def test_producer() -> None:
    handshake = Handshake(SETTINGS)
    assert handshake.begin().startswith(b"  V2IDENTIFY\n")
    answer = b'{"max_rdy_count":50,"version":"1.3.0","news":1}'
    assert handshake.receive(Response(answer)) == b""
    assert handshake.done
    assert (handshake.server.max_rdy_count, handshake.server.version) == (50, "1.3.0")


def test_consumer_with_auth_and_a_heartbeat() -> None:
    handshake = Handshake(Config(auth_secret="s"), "t", "c")
    handshake.begin()
    assert handshake.receive(Response(b'{"auth_required":true}')) == b"AUTH\n\0\0\0\1s"
    assert handshake.receive(Response(b"_heartbeat_")) == b"NOP\n"
    assert handshake.receive(Response(b"{}")) == b"SUB t c\n"
    assert not handshake.done
    assert handshake.receive(Response(b"OK")) == b""
    assert handshake.done


def test_a_server_without_negotiation() -> None:
    handshake = Handshake(SETTINGS)
    handshake.receive(Response(b"OK"))
    assert handshake.done
    assert handshake.server.max_rdy_count == 2500


def test_what_can_go_wrong() -> None:
    with pytest.raises(BadTopic):
        Handshake(SETTINGS).receive(Error("E_BAD_TOPIC x"))
    with pytest.raises(ClientError, match="requires authentication"):
        Handshake(SETTINGS).receive(Response(b'{"auth_required":true}'))
    with pytest.raises(ClientError, match="no JSON"):
        Handshake(SETTINGS).receive(Response(b'{"auth'))
    reader = FrameReader()
    reader.receive_data(message(1, 1, b"0" * 16, b"x"))
    with pytest.raises(ClientError, match="a message instead of an answer to IDENTIFY"):
        Handshake(SETTINGS).receive(reader.events()[0])
