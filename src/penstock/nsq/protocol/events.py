"""What a client asked for: the events that ``CommandReader`` hands to a session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from penstock.nsq.protocol.bodies import Bodies


class State(IntEnum):
    """What a connection is at the moment; the numbers appear in /stats."""

    INIT = 0
    SUBSCRIBED = 3
    CLOSING = 4


@dataclass(slots=True)
class Identify:
    """IDENTIFY, its JSON not yet decoded (see ``identify``)."""

    body: bytes


@dataclass(slots=True)
class Auth:
    """AUTH with the client's secret."""

    body: bytes


@dataclass(slots=True)
class Subscribe:
    """SUB with two valid names."""

    topic: str
    channel: str


@dataclass(slots=True)
class Publish:
    """PUB, MPUB or DPUB (``command`` tells which) on a valid topic name."""

    topic: str
    bodies: Bodies
    command: str = "PUB"
    delay_ns: int = 0


@dataclass(slots=True)
class MpubLine:
    """The line of an MPUB on a valid topic name has come; its body follows.

    Comes before the Publish, and only when asked for (``CommandReader.announce_mpub``).
    """

    topic: str


@dataclass(slots=True)
class Ready:
    """RDY, within the range the server allows."""

    count: int


@dataclass(slots=True, eq=False)
class Finish:
    """One or many FIN in a row.

    ``ids`` are those that are 16 lower-case hex digits, ``raw`` those that are any other 16 bytes
    and so can belong to no message of ours.
    """

    ids: npt.NDArray[np.uint64]
    raw: list[bytes]


@dataclass(slots=True)
class Requeue:
    """REQ. ``delay_ns`` is what was asked, perhaps negative: the session clamps it.

    ``text`` is the delay as the client wrote it, for the log line about clamping.
    """

    id: bytes
    delay_ns: int
    text: str


@dataclass(slots=True)
class Touch:
    """TOUCH."""

    id: bytes


@dataclass(slots=True)
class Close:
    """CLS."""


@dataclass(slots=True)
class Nop:
    """NOP."""


@dataclass(slots=True)
class Failure:
    """A command that is wrong: ``text`` is the whole line for the error frame, code included.

    ``topic`` is set on an MPUB that went wrong after its topic was known, since the topic exists
    from then on. When ``fatal``, the reader gives no further event: the connection is to be closed.
    """

    code: str
    text: str
    fatal: bool
    command: str
    topic: str | None = None


@dataclass(slots=True)
class Drop:
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
