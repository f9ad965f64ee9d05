"""What nsqlookupd hears, and what the clients of both daemons are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.handshake import ANSWER_MAX
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.client.errors import ClientError, NotConnected
from penstock.nsq.nsqlookupd import protocol as lookup
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import (
    HEARTBEAT_FRAME,
    OK_FRAME,
    FrameReader,
    MessageBlock,
    error,
    message,
    response,
)
from tools.fuzz.streams import same_however_cut

from . import Target

MAX_LINE, MAX_BODY, MAX_FRAME = 256, 256, 4096


def lookup_commands(data: bytes) -> None:
    """What an nsqd tells nsqlookupd."""
    same_however_cut(data, _lookup_commands)


def _lookup_commands(pieces: Iterator[bytes]) -> list[Any]:
    reader = lookup.CommandReader(max_line=MAX_LINE, max_body=MAX_BODY)
    found: list[Any] = []
    try:
        for piece in pieces:
            reader.receive_data(piece)
            while (command := reader.next_command()) is not None:
                found.append(command)
            assert len(reader._buffer) <= max(MAX_LINE, MAX_BODY + 4)
        reader.receive_eof()
        assert reader.next_command() is None
    except lookup.LookupProtocolError as refusal:
        found.append(lookup.error_reply(refusal))
    return found


def lookup_replies(data: bytes) -> None:
    """What nsqlookupd answers to an nsqd."""
    same_however_cut(data, _lookup_replies)


def _lookup_replies(pieces: Iterator[bytes]) -> list[Any]:
    reader = lookup.ReplyReader(max_body=MAX_BODY)
    found: list[Any] = []
    try:
        for piece in pieces:
            reader.receive_data(piece)
            while (reply := reader.next_reply()) is not None:
                found.append(reply)
            assert len(reader._buffer) < MAX_BODY + 4
    except lookup.LookupProtocolError as refusal:
        found.append(str(refusal))
    return found


def frames(data: bytes) -> None:
    """What an nsqd sends to a client: responses, errors, runs of messages."""
    same_however_cut(data, _frames)


def _frames(pieces: Iterator[bytes]) -> list[Any]:
    reader = FrameReader(MAX_FRAME)
    found: list[Any] = []
    try:
        for piece in pieces:
            reader.receive_data(piece)
            for frame in reader.events():
                found += _unrolled(frame)
            assert reader.unread < MAX_FRAME + 4
    except ProtocolError:
        # Frames that came before the bad one in the same piece are lost with the connection.
        found = []
    return found


def _unrolled(frame: Any) -> list[Any]:
    if not isinstance(frame, MessageBlock):
        return [frame]
    messages = list(frame)
    assert [each.body for each in messages] == frame.bodies()
    assert [each.id for each in messages] == frame.ids()
    assert frame.finish_commands() == b"".join(b"FIN %b\n" % each.id for each in messages)
    return messages


def client(data: bytes) -> None:
    """What an nsqd says to a consumer from the first byte on: the handshake, then frames."""
    same_however_cut(data, _client)


def _client(pieces: Iterator[bytes]) -> list[Any]:
    wire = Wire("h:1", _CONFIG, "t", "c")
    wire.begin()
    found: list[Any] = []
    try:
        for piece in pieces:
            wire.receive_data(piece)
            while frames := wire.events():
                for frame in frames:
                    found += _unrolled(frame)
            assert len(wire._answers._held) < ANSWER_MAX + 4
            wire.take_output()
    except ClientError as refusal:
        # Frames, and answers inside deflate, that came in the same piece are lost with it.
        assert isinstance(refusal, NotConnected) == wire.is_ready
        return ["lost"] if wire.is_ready or wire.state.compression else [str(refusal)]
    return [wire.server, wire.state.messages, *found]


_CONFIG = Config(auth_secret="s", max_msg_size=MAX_FRAME, deflate=True)
_AGREED = response(b'{"max_rdy_count":5,"auth_required":true,"version":"1.3.0","sample_rate":0}')
_INFO = b'{"broadcast_address":"h","tcp_port":1,"http_port":2,"version":"1.3.0","hostname":"h"}'
_HELLO = lookup.MAGIC_V1 + lookup.identify(_INFO)

TARGETS = {
    "lookup_commands": Target(
        lookup_commands,
        [
            _HELLO + lookup.register("t") + lookup.register("t", "c") + lookup.PING,
            _HELLO + lookup.unregister("t", "c") + lookup.unregister("t") + b"PING  \r\n",
            lookup.MAGIC_V1 + lookup.PING * 3 + b"REGISTER t\n",
            _HELLO + b"REGISTER \xff\xfe\n",
        ],
        [b"REGISTER ", b"UNREGISTER ", b"IDENTIFY\n", b"\0\0\0\x02{}", b"\n", b"\xff" * 4, b"-1"],
    ),
    "lookup_replies": Target(
        lookup_replies,
        [lookup.OK * 3, lookup.reply(b"{}"), lookup.reply(b"E_INVALID x")],
        [b"\0\0\0\x02OK", b"\xff" * 4, b"\x7f\xff\xff\xff"],
    ),
    "client": Target(
        client,
        [
            OK_FRAME * 2 + HEARTBEAT_FRAME + message(1, 1, b"0" * 16, b"x") * 20 + OK_FRAME,
            _AGREED + response(b"{}") + OK_FRAME + error("E_FIN_FAILED x") + HEARTBEAT_FRAME,
            _AGREED + error("E_UNAUTHORIZED x"),
            response(b'{"deflate":true}') + DeflateLayer().send(OK_FRAME * 2 + HEARTBEAT_FRAME),
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
        ],
        [b"\0\0\0\0", b"\0\0\0\x02", b"HTTP", b"true", b"null", b"{", b"OK", b"\xff" * 4],
    ),
    "frames": Target(
        frames,
        [
            OK_FRAME + HEARTBEAT_FRAME + error("E_INVALID no \xe9"),
            b"".join(message(n, 1, b"%016x" % n, b"same") for n in range(40)),
            b"".join(message(n, n, b"%016x" % n, b"x" * n) for n in range(30)) + OK_FRAME,
            message(-1, 70000, b"\xff" * 16, b""),
        ],
        [b"\0\0\0\0", b"\0\0\0\x01", b"\0\0\0\x02", b"\0\0\0\x1e", b"\0\0\0\x04", b"\xff" * 4],
    ),
}
