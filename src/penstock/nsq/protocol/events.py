"""The requests of a client: the events that ``CommandReader`` hands to a session."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.finishes import Ids


class State(IntEnum):
    """The current state of a connection; the numbers appear in /stats."""

    # 1 and 2, Go's disconnected and connected, never occur (NSQ spec 1.2).
    INIT = 0
    SUBSCRIBED = 3
    CLOSING = 4


class Identify(Struct):
    """IDENTIFY, its JSON not yet decoded (see ``identify``)."""

    body: bytes


class Auth(Struct):
    """AUTH with the client's secret."""

    body: bytes


class Subscribe(Struct):
    """SUB with two valid names."""

    topic: str
    channel: str


class Publish(Struct):
    """PUB, MPUB or DPUB (``command`` tells which) on a valid topic name."""

    topic: str
    bodies: Bodies
    command: str = "PUB"
    delay_ns: int = 0


class MpubLine(Struct):
    """The line of an MPUB on a valid topic name has come; its body follows.

    Comes before the Publish, and only when asked for (``CommandReader.announce_mpub``).
    """

    topic: str


class Ready(Struct):
    """RDY, within the range the server allows."""

    count: int


class Finish(Struct, eq=False):
    """One or many FIN in a row.

    ``ids`` are those that are 16 lower-case hex digits (a list when they are few), ``raw`` those
    that are any other 16 bytes and so can belong to no message of ours.
    """

    ids: Ids
    raw: list[bytes]


class Requeue(Struct):
    """REQ. ``delay_ns`` is what was asked, perhaps negative: the session clamps it.

    ``text`` is the delay as the client wrote it, for the log line about clamping.
    """

    id: bytes
    delay_ns: int
    text: str


class Touch(Struct):
    """TOUCH."""

    id: bytes


class Close(Struct):
    """CLS."""


class Nop(Struct):
    """NOP."""


class Failure(Struct):
    """A command that is wrong: ``text`` is the whole line for the error frame, code included.

    ``topic`` is set on an MPUB that went wrong after its topic was known, since the topic exists
    from then on. When ``fatal``, the reader gives no further event: the connection is to be closed.
    """

    code: str
    text: str
    fatal: bool
    command: str
    topic: str | None = None


class Drop(Struct):
    """The line is too long: close without a word."""


Event = (
    Identify
    | Auth
    | Subscribe
    | MpubLine
    | Publish
    | Ready
    | Finish
    | Requeue
    | Touch
    | Close
    | Nop
    | Failure
    | Drop
)
