"""The V1 protocol between nsqd and nsqlookupd; bytes in, events and bytes out, no I/O.

nsqd sends four magic bytes, then lines; IDENTIFY carries a body with its length. Each answer is a
big-endian length and data, errors included: they are known only by their text, and end the
connection. ``CommandReader`` is the server's side, the encoders and ``ReplyReader`` nsqd's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.core.errors import PenstockError
from penstock.core.gojson import Kind, loads_struct
from penstock.core.names import is_valid_name

MAGIC_V1 = b"  V1"
PING = b"PING\n"
OK = b"\x00\x00\x00\x02OK"

MAX_LINE = 256 * 1024
"""Bytes of a command line; the original has no limit."""
MAX_BODY = 1 << 20
"""Bytes of an IDENTIFY body; the original has no limit, and dies of a negative length."""

_SIZE = struct.Struct(">i")
_PEER_FIELDS = {
    "hostname": Kind.STRING,
    "broadcast_address": Kind.STRING,
    "tcp_port": Kind.INT,
    "http_port": Kind.INT,
    "version": Kind.STRING,
    "topology_zone": Kind.STRING,
    "topology_region": Kind.STRING,
}


class LookupProtocolError(PenstockError):
    """Invalid input from a peer; the text is the answer, and the connection ends."""


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """The description that an nsqd gives of itself."""

    hostname: str
    broadcast_address: str
    tcp_port: int
    http_port: int
    version: str
    topology_zone: str = ""
    topology_region: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """The peer is alive."""


@dataclass(frozen=True, slots=True)
class Identify:
    """The peer says who it is; once in a connection's life."""

    peer: PeerInfo


@dataclass(frozen=True, slots=True)
class Register:
    """The peer has this topic, and this channel of it unless that is empty."""

    topic: str
    channel: str


@dataclass(frozen=True, slots=True)
class Unregister:
    """The peer no longer has this channel, or with an empty one this topic."""

    topic: str
    channel: str


Command = Ping | Identify | Register | Unregister


class CommandReader:
    """A parser of what one nsqd sends, in order."""

    def __init__(self, *, max_line: int = MAX_LINE, max_body: int = MAX_BODY) -> None:
        self._max_line = max_line
        self._max_body = max_body
        self._buffer = bytearray()
        self._searched = 0  # bytes of an unfinished line without a line feed
        self._has_magic = False
        self._awaits_body = False
        self._eof = False
        self.identified = False

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._buffer += data

    @property
    def unread(self) -> int:
        """Bytes held of a command that is not complete yet."""
        return len(self._buffer)

    def receive_eof(self) -> None:
        """The peer sends no more; what is missing of a body is now an error."""
        self._eof = True

    def next_command(self) -> Command | None:
        """The next whole command, None when more bytes are needed.

        LookupProtocolError when there cannot be one; nothing may be read after it.
        """
        if not self._has_magic and not self._take_magic():
            return None
        if self._awaits_body:
            return self._take_identify()
        line = self._take_line()
        return None if line is None else self._command(line)

    def _take_magic(self) -> bool:
        if len(self._buffer) < len(MAGIC_V1):
            return False
        if self._buffer[:4] != MAGIC_V1:
            # nsqlookupd sends errors as answers of the same form; nsqd knows them by their text.
            raise LookupProtocolError("E_BAD_PROTOCOL")
        del self._buffer[:4]
        self._has_magic = True
        return True

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
        if max(end, self._searched) > self._max_line:
            raise LookupProtocolError("E_INVALID command line too long")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _command(self, line: bytes) -> Command | None:
        # nsqlookupd trims the line at both ends, which nsqd does not; both split at each blank.
        name, *params = line.strip().decode("utf-8", "surrogateescape").split(" ")
        # nsqlookupd answers PING before IDENTIFY, and ignores surplus parameters of any command.
        if name == "PING":
            return Ping()
        if name == "IDENTIFY":
            if self.identified:
                raise LookupProtocolError("E_INVALID cannot IDENTIFY again")
            self._awaits_body = True
            return self._take_identify()
        if name == "REGISTER":
            return Register(*self._topic_and_channel(name, params))
        if name == "UNREGISTER":
            return Unregister(*self._topic_and_channel(name, params))
        raise LookupProtocolError(f"E_INVALID invalid command {name}")

    def _topic_and_channel(self, command: str, params: list[str]) -> tuple[str, str]:
        if not self.identified:
            raise LookupProtocolError("E_INVALID client must IDENTIFY")
        if not params:
            raise LookupProtocolError(f"E_INVALID {command} insufficient number of params")
        # Two blanks before the channel make it empty: nsqlookupd registers the topic alone then.
        topic, channel = params[0], params[1] if len(params) > 1 else ""
        if not is_valid_name(topic):
            # nsqlookupd puts the name between quotes as it came, where nsqd escapes it.
            raise LookupProtocolError(f"E_BAD_TOPIC {command} topic name '{topic}' is not valid")
        if channel and not is_valid_name(channel):
            raise LookupProtocolError(
                f"E_BAD_CHANNEL {command} channel name '{channel}' is not valid"
            )
        return topic, channel

    def _take_identify(self) -> Identify | None:
        if len(self._buffer) < _SIZE.size:
            self._check_eof("E_BAD_BODY IDENTIFY failed to read body size")
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        # Size 0 is a body too, which fails to decode as in Go (NSQ spec 4.1).
        if not 0 <= size <= self._max_body:
            raise LookupProtocolError(f"E_BAD_BODY IDENTIFY invalid body size {size}")
        if len(self._buffer) < _SIZE.size + size:
            self._check_eof("E_BAD_BODY IDENTIFY failed to read body")
            return None
        body = bytes(self._buffer[_SIZE.size : _SIZE.size + size])
        del self._buffer[: _SIZE.size + size]
        peer = parse_peer_info(body)
        self._awaits_body = False
        self.identified = True
        return Identify(peer)

    def _check_eof(self, text: str) -> None:
        if self._eof:
            raise LookupProtocolError(text)


def parse_peer_info(body: bytes) -> PeerInfo:
    """The body of IDENTIFY; LookupProtocolError when a field is wrong or missing."""
    try:
        fields = loads_struct(body, _PEER_FIELDS)
    except ValueError:
        raise LookupProtocolError("E_BAD_BODY IDENTIFY failed to decode JSON body") from None
    peer = PeerInfo(**fields)
    # nsqlookupd takes 0 and "" for missing; a negative port, or no hostname, it accepts.
    if not (peer.broadcast_address and peer.tcp_port and peer.http_port and peer.version):
        raise LookupProtocolError("E_BAD_BODY IDENTIFY missing fields")
    return peer


def reply(data: bytes) -> bytes:
    """An answer of nsqlookupd."""
    return _SIZE.pack(len(data)) + data


def error_reply(error: LookupProtocolError) -> bytes:
    """The answer to what is wrong."""
    return reply(str(error).encode("utf-8", "surrogateescape"))


def identify(body: bytes) -> bytes:
    """The command by which an nsqd describes itself; ``body`` is JSON."""
    return b"IDENTIFY\n" + reply(body)


def register(topic: str, channel: str = "") -> bytes:
    """The command that announces a topic, or a channel and its topic."""
    return _line("REGISTER", topic, channel)


def unregister(topic: str, channel: str = "") -> bytes:
    """The command that takes back a channel, or a topic."""
    return _line("UNREGISTER", topic, channel)


def _line(command: str, topic: str, channel: str) -> bytes:
    # Without a channel there is no trailing space either.
    return f"{command} {topic} {channel}".rstrip(" ").encode() + b"\n"


class ReplyReader:
    """A parser of what an nsqlookupd answers."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Take bytes from nsqlookupd."""
        self._buffer += data

    def next_reply(self) -> bytes | None:
        """The next whole answer, None when more bytes are needed.

        LookupProtocolError when its size is out of bounds.
        """
        if len(self._buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 0 <= size <= self._max_body:
            raise LookupProtocolError(f"invalid size of an answer: {size}")
        if len(self._buffer) < _SIZE.size + size:
            return None
        data = bytes(self._buffer[_SIZE.size : _SIZE.size + size])
        del self._buffer[: _SIZE.size + size]
        return data
