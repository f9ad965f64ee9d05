"""A server's reader of commands: bytes in, one command at a time out.

The reader is pulled (``next_event``), because the session's answer to one command decides what the
next one may be, and after an IDENTIFY perhaps even what its bytes mean. It checks everything about
a command that the bytes and the connection's state can tell, in the order in which nsqd does
(NSQ spec 1.3), so that a session sees only commands that make sense.

How it copes with data cut anywhere: a command line is read only when its LF is there. After the
line of a command with a body, ``_resume`` is the method that goes on when more data comes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from penstock import lane
from penstock.core.quote import quote
from penstock.core.units import MILLISECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.events import (
    Auth,
    Close,
    Drop,
    Event,
    Failure,
    Finish,
    Identify,
    MpubLine,
    Nop,
    Publish,
    Ready,
    Requeue,
    State,
    Subscribe,
    Touch,
)
from penstock.nsq.protocol.finishes import id_value, read_finishes
from penstock.nsq.protocol.frames import FIN_LENGTH
from penstock.nsq.protocol.limits import MAX_LINE, Limits
from penstock.nsq.protocol.mpub import MpubScanner
from penstock.nsq.protocol.params import parse_name, parse_number, shown, signed

# Signed: sizes of 2^31 and more are negative in nsqd's texts (NSQ spec 1.1).
_int32 = struct.Struct(">i").unpack_from

_APPEND_FROM = 64 * 1024
"""With this many left-over bytes, data is appended in place and not joined again at each read."""


class CommandReader:
    """The commands of one connection.

    The session sets ``state`` and ``heartbeats_disabled`` as the connection's life goes on, and
    ``tls_required`` while nothing but IDENTIFY is welcome. With ``announce_mpub`` the line of an
    MPUB is a separate event, because nsqd authorises and creates the topic before the body.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        expect_magic: bool = False,
        tls_required: bool = False,
    ) -> None:
        self.limits = limits or Limits()
        self.state = State.INIT
        self.heartbeats_disabled = False
        self.tls_required = tls_required
        self.announce_mpub = False
        self._data: bytes | bytearray = b""
        self._pos = 0
        self._line_start = 0
        self._resume: Callable[[], Event | None] | None = self._magic if expect_magic else None
        # Of the command whose body is awaited:
        self._command = ""
        self._topic = ""
        self._delay_ns = 0
        self._scanner: MpubScanner | None = None

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the client; then call ``next_event`` until it gives None."""
        left = len(self._data) - self._pos
        # The usual case: all before was understood, so the read is used without a copy.
        if not left:
            self._data = data
            self._pos = 0
        elif isinstance(self._data, bytearray):
            self._data += data
        elif left < _APPEND_FROM:
            self._data = self._data[self._pos :] + data
            self._pos = 0
        else:
            grown = bytearray(memoryview(self._data)[self._pos :])
            grown += data
            self._data = grown
            self._pos = 0

    @property
    def greeted(self) -> bool:
        """True once the magic has come, or something else in its place."""
        return self._resume != self._magic

    @property
    def unread(self) -> int:
        """Bytes held that are part of no event yet."""
        return len(self._data) - self._pos

    @property
    def is_at_a_command(self) -> bool:
        """True if all that came is understood, and the next byte begins a command."""
        return not self._data and self._resume is None and not self.tls_required

    def take_unread(self) -> bytes:
        """Hand over the bytes not understood yet, for instance a TLS greeting after IDENTIFY."""
        rest = bytes(self._data[self._pos :])
        self._data = b""
        self._pos = 0
        return rest

    def forget(self) -> None:
        """Drop the bytes held, as nothing is read any more."""
        self._data = b""
        self._pos = 0
        self._scanner = None

    def eof(self) -> Failure | None:
        """The client will send no more: the error of the body cut short, or None inside a line."""
        resume, available = self._resume, self.unread
        # As in nsqd, a body cut short has an error, a line has not: half-closed clients read it.
        if resume == self._message:
            what = "message body size" if available < 4 else "message body"
            return self._fail("E_BAD_MESSAGE", f"{self._command} failed to read {what}")
        if resume in (self._identify_body, self._auth_body, self._mpub_size):
            what = "body size" if available < 4 else "body"
            return self._fail("E_BAD_BODY", f"{self._command} failed to read {what}")
        if resume == self._mpub_body and self._scanner is not None:
            return self._mpub_failure(self._scanner.end_of_data(available))
        return None

    # Events out

    def next_event(self) -> Event | None:
        """The next command or its Failure; None when more data is needed.

        After a fatal Failure, or Drop, there is nothing but None.
        """
        if self._resume is not None:
            return self._resume()
        while self._pos < len(self._data):
            data, start = self._data, self._pos
            # The bytearray was for a body; lines and FINs are read from bytes.
            if type(data) is not bytes:
                data = self._data = bytes(memoryview(data)[start:])
                self._pos = start = 0
            # Not beyond the longest line: a megabyte without a LF is not searched at each read.
            end = data.find(b"\n", start, start + MAX_LINE)
            if end < 0:
                return self._no_line()
            self._line_start = start
            self._pos = end + 1
            # nsqd strips one CR, and splits at every blank: two blanks make an empty parameter.
            line = data[start : end - 1] if data[end - 1] == 13 and end > start else data[start:end]
            params = line.split(b" ")
            command = _COMMANDS.get(params[0])
            if command is None or self.tls_required:
                failure = self._refuse(params[0])
                if failure is not None or command is None:
                    return failure
            event = command(self, params)
            if event is not _IGNORED:
                return event
        self._data = b""  # an idle connection holds no buffer
        self._pos = 0
        return None

    def _no_line(self) -> Event | None:
        # nsqd's buffer for a line is 16 KiB: a longer one ends the connection without an error.
        if self.unread >= MAX_LINE:
            self._resume = self._ended
            return Drop()
        return None

    def _refuse(self, name: bytes) -> Failure | None:
        word = shown(name)
        if not self.tls_required:
            return self._fail("E_INVALID", f"invalid command {word}", word)
        # nsqd checks TLS first: it says so even of commands that it does not know.
        if name == b"IDENTIFY":
            return None
        return self._fail("E_INVALID", f"cannot {word} in current state (TLS required)", word)

    def _ended(self) -> None:
        return None

    def _fail(self, code: str, description: str, command: str | None = None) -> Failure:
        self._resume = self._ended
        name = self._command if command is None else command
        return Failure(code, f"{code} {description}" if description else code, True, name)

    def _magic(self) -> Event | None:
        start, data = self._pos, self._data
        if len(data) - start < 4:
            return None
        if data[start : start + 4] != MAGIC_V2:
            # nsqd sends this code without a text; all its other errors have one.
            return self._fail("E_BAD_PROTOCOL", "", "")
        self._pos = start + 4
        self._resume = None
        return self.next_event()

    # Commands without a body

    def _wrong_state(self, command: str) -> Failure:
        return self._fail("E_INVALID", f"cannot {command} in current state", command)

    def _sub(self, params: list[bytes]) -> Event:
        if self.state is not State.INIT:
            return self._wrong_state("SUB")
        # nsqd refuses consumers without heartbeats: nothing would end one that is gone.
        if self.heartbeats_disabled:
            return self._fail("E_INVALID", "cannot SUB with heartbeats disabled", "SUB")
        if len(params) < 3:
            return self._fail("E_INVALID", "SUB insufficient number of parameters", "SUB")
        topic, channel = parse_name(params[1]), parse_name(params[2])
        if topic is None:
            return self._bad_topic("SUB", params[1])
        if channel is None:
            text = f"SUB channel name {quote(params[2])} is not valid"
            return self._fail("E_BAD_CHANNEL", text, "SUB")
        return Subscribe(topic, channel)

    def _rdy(self, params: list[bytes]) -> Event:
        # nsqd ignores an RDY after CLS, where in other wrong states it closes the connection.
        if self.state is State.CLOSING:
            return _IGNORED
        if self.state is not State.SUBSCRIBED:
            return self._wrong_state("RDY")
        # NSQ's documents require the count; nsqd takes an RDY without one as 1.
        count = 1
        if len(params) > 1:
            number = parse_number(params[1])
            if number is None:
                text = f"RDY could not parse count {shown(params[1])}"
                return self._fail("E_INVALID", text, "RDY")
            # nsqd casts the unsigned number: 18446744073709551615 is shown as -1.
            count = signed(number)
        largest = self.limits.max_rdy_count
        if not 0 <= count <= largest:
            text = f"RDY count {count} out of range 0-{largest}"
            return self._fail("E_INVALID", text, "RDY")
        return Ready(count)

    def _fin(self, params: list[bytes]) -> Event:
        if self.state is State.INIT:
            return self._wrong_state("FIN")
        data, start = self._data, self._line_start
        assert type(data) is bytes
        ids = read_finishes(data, start)
        if len(ids):
            self._pos = start + len(ids) * FIN_LENGTH
            return Finish(ids, [])
        failure = self._bad_id("FIN", params, 2)
        if failure is not None:
            return failure
        # Regular but for a CR or more parameters, or no id of ours at all.
        value = id_value(params[1])
        if value is None:
            return Finish([], [params[1]])
        return Finish([value], [])

    def _req(self, params: list[bytes]) -> Event:
        if self.state is State.INIT:
            return self._wrong_state("REQ")
        failure = self._bad_id("REQ", params, 3)
        if failure is not None:
            return failure
        number = parse_number(params[2])
        text = shown(params[2])
        if number is None:
            return self._fail("E_INVALID", f"REQ could not parse timeout {text}", "REQ")
        # nsqd multiplies with wrap-around; the session raises what is negative to 0, as it does.
        return Requeue(params[1], signed(number * MILLISECOND), text)

    def _touch(self, params: list[bytes]) -> Event:
        if self.state is State.INIT:
            return self._wrong_state("TOUCH")
        return self._bad_id("TOUCH", params, 2) or Touch(params[1])

    def _bad_id(self, command: str, params: list[bytes], needed: int) -> Failure | None:
        if len(params) < needed:
            # nsqd says "params" here, but "parameters" for SUB and publishes.
            text = f"{command} insufficient number of params"
            return self._fail("E_INVALID", text, command)
        # nsqd checks the length alone: 16 other bytes are an unknown id, which is not fatal.
        if len(params[1]) != 16:
            return self._fail("E_INVALID", "invalid message ID", command)
        return None

    def _cls(self, params: list[bytes]) -> Event:
        # V2 protocol, CLS: a second one is fatal (NSQ spec 1.2).
        return Close() if self.state is State.SUBSCRIBED else self._wrong_state("CLS")

    def _nop(self, params: list[bytes]) -> Event:
        return Nop()

    # IDENTIFY and AUTH

    def _identify(self, params: list[bytes]) -> Event | None:
        if self.state is not State.INIT:
            return self._wrong_state("IDENTIFY")
        self._command = "IDENTIFY"
        return self._identify_body()

    def _auth(self, params: list[bytes]) -> Event | None:
        if self.state is not State.INIT:
            return self._wrong_state("AUTH")
        # AUTH is the only command of which nsqd refuses surplus parameters.
        if len(params) != 1:
            return self._fail("E_INVALID", "AUTH invalid number of parameters", "AUTH")
        self._command = "AUTH"
        return self._auth_body()

    def _identify_body(self) -> Event | None:
        body = self._sized_body(self._identify_body)
        return Identify(body) if isinstance(body, bytes) else body

    def _auth_body(self) -> Event | None:
        body = self._sized_body(self._auth_body)
        return Auth(body) if isinstance(body, bytes) else body

    def _sized_body(self, resume: Callable[[], Event | None]) -> bytes | Failure | None:
        self._resume = resume
        data, start = self._data, self._pos + 4
        if len(data) < start:
            return None
        (size,) = _int32(data, start - 4)
        largest = self.limits.max_body_size
        if size > largest:
            return self._fail("E_BAD_BODY", f"{self._command} body too big {size} > {largest}")
        if size <= 0:
            return self._fail("E_BAD_BODY", f"{self._command} invalid body size {size}")
        if len(data) < start + size:
            return None
        self._pos = start + size
        self._resume = None
        return bytes(data[start : start + size])

    # PUB and DPUB

    def _pub(self, params: list[bytes]) -> Event | None:
        # nsqd takes publishes in any state, so a consumer may publish over its connection.
        if len(params) < 2:
            return self._fail("E_INVALID", "PUB insufficient number of parameters", "PUB")
        topic = parse_name(params[1])
        if topic is None:
            return self._bad_topic("PUB", params[1])
        self._command = "PUB"
        self._topic = topic
        self._delay_ns = 0
        return self._message()

    def _dpub(self, params: list[bytes]) -> Event | None:
        if len(params) < 3:
            return self._fail("E_INVALID", "DPUB insufficient number of parameters", "DPUB")
        topic = parse_name(params[1])
        if topic is None:
            return self._bad_topic("DPUB", params[1])
        delay_ms = parse_number(params[2])
        if delay_ms is None:
            text = f"DPUB could not parse timeout {shown(params[2])}"
            return self._fail("E_INVALID", text, "DPUB")
        # The product wraps as in nsqd, while the text has the number as the client sent it.
        delay_ns, largest = signed(delay_ms * MILLISECOND), self.limits.max_req_timeout
        # NSQ's documents exclude the longest delay; nsqd, and so its clients, include it.
        if not 0 <= delay_ns <= largest:
            text = f"DPUB timeout {delay_ms} out of range 0-{largest // MILLISECOND}"
            return self._fail("E_INVALID", text, "DPUB")
        self._command = "DPUB"
        self._topic = topic
        self._delay_ns = delay_ns
        return self._message()

    def _message(self) -> Event | None:
        data, start = self._data, self._pos + 4
        if len(data) < start:
            self._resume = self._message
            return None
        (size,) = _int32(data, start - 4)
        # V2 protocol, PUB and DPUB: an empty message is never legal over TCP (NSQ spec 1.7).
        if not 0 < size <= self.limits.max_msg_size:
            return self._bad_message_size(size)
        end = start + size
        if len(data) < end:
            self._resume = self._message
            return None
        self._pos = end
        self._resume = None
        body = Bodies.single(bytes(data[start:end]))
        return Publish(self._topic, body, self._command, self._delay_ns)

    def _bad_message_size(self, size: int) -> Failure:
        command, largest = self._command, self.limits.max_msg_size
        if size > 0:
            return self._fail("E_BAD_MESSAGE", f"{command} message too big {size} > {largest}")
        return self._fail("E_BAD_MESSAGE", f"{command} invalid message body size {size}")

    def _bad_topic(self, command: str, raw: bytes) -> Failure:
        text = f"{command} topic name {quote(raw)} is not valid"
        return self._fail("E_BAD_TOPIC", text, command)

    # MPUB

    def _mpub(self, params: list[bytes]) -> Event | None:
        if len(params) < 2:
            return self._fail("E_INVALID", "MPUB insufficient number of parameters", "MPUB")
        topic = parse_name(params[1])
        if topic is None:
            # nsqd doubles the code; clients compare the text.
            text = f"E_BAD_TOPIC MPUB topic name {quote(params[1])} is not valid"
            return self._fail("E_BAD_TOPIC", text, "MPUB")
        self._command = "MPUB"
        self._topic = topic
        if self.announce_mpub:
            self._resume = self._mpub_size
            return MpubLine(topic)
        return self._mpub_size()

    def _mpub_size(self) -> Event | None:
        self._resume = self._mpub_size
        if self.unread < 4:
            return None
        (size,) = _int32(self._data, self._pos)
        largest = self.limits.max_body_size
        if size <= 0:
            return self._mpub_failure(ProtocolError("E_BAD_BODY", f"MPUB invalid body size {size}"))
        if size > largest:
            text = f"MPUB body too big {size} > {largest}"
            return self._mpub_failure(ProtocolError("E_BAD_BODY", text))
        self._pos += 4
        self._scanner = MpubScanner(self.limits.max_msg_size, largest)
        return self._mpub_body()

    def _mpub_body(self) -> Event | None:
        scanner = self._scanner
        assert scanner is not None
        self._resume = self._mpub_body
        try:
            if not scanner.scan(self._data, self._pos):
                return None
        except ProtocolError as error:
            return self._mpub_failure(error)
        self._resume = self._scanner = None
        return Publish(self._topic, self._take_bodies(scanner), "MPUB", 0)

    def _take_bodies(self, scanner: MpubScanner) -> Bodies:
        data, start = self._data, self._pos
        self._pos += scanner.consumed
        found, limits = memoryview(data)[start : self._pos], self.limits
        frames: Bodies | None = lane.frames_of_mpub(
            found, limits.max_msg_size, limits.max_body_size
        )
        if frames is not None:
            return frames
        if type(data) is bytes:
            return Bodies.from_scan(scanner, data, start)
        scanner.bodies = list(map(bytes, scanner.bodies))  # some may be slices of a bytearray
        return Bodies.from_scan(scanner, bytes(memoryview(data)[start : self._pos]), 0)

    def _mpub_failure(self, error: ProtocolError) -> Failure:
        self._resume = self._ended
        self._scanner = None
        return Failure(error.code, error.text, True, "MPUB", self._topic)


_IGNORED = Nop()

_COMMANDS: dict[bytes, Callable[[CommandReader, list[bytes]], Event | None]] = {
    b"FIN": CommandReader._fin,
    b"PUB": CommandReader._pub,
    b"MPUB": CommandReader._mpub,
    b"DPUB": CommandReader._dpub,
    b"RDY": CommandReader._rdy,
    b"REQ": CommandReader._req,
    b"TOUCH": CommandReader._touch,
    b"NOP": CommandReader._nop,
    b"SUB": CommandReader._sub,
    b"CLS": CommandReader._cls,
    b"IDENTIFY": CommandReader._identify,
    b"AUTH": CommandReader._auth,
}
