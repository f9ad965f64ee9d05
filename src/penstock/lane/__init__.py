"""Plain publishes in compiled code, where it was built; everything works without it.

A publish is plain if nothing looks at it by itself: PUB, MPUB or POST /pub, whole in what was read,
to a topic that is there and has no limits. ``compiled`` takes these from what a connection reads,
and makes one publish of all that come to a topic between two commits (a joint publish). Whatever
else comes goes to the parser, as everything does without compiled code.

``PENSTOCK_LANE=off`` in the environment turns it off.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeAlias

VARIABLE: Final = "PENSTOCK_LANE"
_MEANINGS: Final = {
    "on": "plain publishes run in compiled code",
    "off": f"plain publishes run in Python, as {VARIABLE}=off says",
    "not built": "plain publishes run in Python, which takes more of a processor: to compile them "
    "needs a C compiler and Python's headers (on Debian gcc and python3-dev)",
}
Publisher: TypeAlias = Any
"""The way of plain publishes into a node's topics (``compiled.Publisher``)."""
Stored: TypeAlias = Any
"""RocketMQ's messages as records of a topic (``compiled.Stored``)."""


def _found() -> tuple[str, Any]:
    if os.environ.get(VARIABLE) == "off":
        return "off", None
    try:
        from penstock.lane import compiled
    except ImportError:
        return "not built", None
    return "on", compiled


STATE, COMPILED = _found()
"""The state of compiled code (``on``, ``off`` or ``not built``), and its module or None."""


class Intake:
    """The intake of a connection without compiled code: the parser sees all."""

    def take_plain(self, *_: Any) -> None:
        """Take plain publishes from now on."""

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        self.parse(data)

    def parse(self, data: bytes) -> None:
        """Take what is for the parser."""
        raise NotImplementedError


Commands: TypeAlias = Intake
"""The intake of a connection that speaks NSQ."""
Requests: TypeAlias = Intake
"""The intake of a connection that speaks HTTP."""
Sends: TypeAlias = Intake
"""The intake of a connection that speaks RocketMQ's remoting."""
if COMPILED is not None:
    Commands = COMPILED.Commands  # type: ignore[misc]  # a class, and chosen once
    Requests = COMPILED.Requests  # type: ignore[misc]
    Sends = COMPILED.Sends  # type: ignore[misc]


def meaning() -> str:
    """The meaning of ``STATE``, for people."""
    return _MEANINGS[STATE]


def publisher(commits: Any, topics: Any) -> Publisher | None:
    """The way into the ``topics`` of a node, with its ``commits``; None without compiled code."""
    return None if COMPILED is None else COMPILED.Publisher(commits, topics)


def frames_of_mpub(
    data: bytes | bytearray | memoryview, max_msg_size: int, max_body_size: int
) -> Any:
    """The messages of an MPUB, from its count on, as ``Bodies``; None if it is not whole or legal,
    or without compiled code.
    """
    return None if COMPILED is None else COMPILED.frames_of_mpub(data, max_msg_size, max_body_size)


def stored_of(
    body: bytes,
    more: bytes,
    topic: bytes,
    born_host: bytes,
    store_host: bytes,
    queue: int,
    sys_flag: int,
    born_ms: int,
    reconsume_times: int,
    base: int,
) -> Stored | None:
    """The messages of RocketMQ's batch ``body`` as records of a queue, with ``more`` properties
    each; None if one of them is not plain ASCII or not legal, or without compiled code.

    ``topic`` has its length before it, hosts are an IP and 4 bytes of a port, ``base`` is the
    physical offset of the message whose id is 0.
    """
    if COMPILED is None:
        return None
    stored: Stored | None = COMPILED.stored_of(
        body, more, topic, born_host, store_host, queue, sys_flag, born_ms, reconsume_times, base
    )
    return stored


def fields_of(data: bytes) -> dict[str, str] | None:
    """The fields of a binary header of RocketMQ's; None if they are not plain ASCII or not legal,
    or without compiled code.
    """
    return None if COMPILED is None else COMPILED.fields_of(data)
