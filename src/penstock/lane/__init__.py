"""Plain publishes in compiled code, where it was built; everything works without it.

A publish is plain if nothing looks at it by itself: PUB, MPUB, POST /pub or a send of RocketMQ's,
whole in what was read, to a topic that is there and has no limits. ``compiled`` takes these from
what a connection reads, and makes one publish of all that come to a queue between two commits (a
joint publish). Whatever else comes goes to the parser, as everything does without compiled code.

``PENSTOCK_LANE=off`` in the environment turns it off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from glob import glob
from importlib import import_module
from typing import Any, Final, TypeAlias

VARIABLE: Final = "PENSTOCK_LANE"
_MEANINGS: Final = {
    "on": "plain publishes run in compiled code",
    "off": f"plain publishes run in Python, as {VARIABLE}=off says",
    "not built": "plain publishes run in Python, which takes more of a processor: to compile them "
    "needs a C compiler and Python's headers (on Debian gcc and python3-dev)",
    "stale": "plain publishes run in Python, as the compiled module is older than its source; "
    "make install compiles it",
}
Publisher: TypeAlias = Any
"""The way of plain publishes into a node's topics (``compiled.Publisher``)."""
Stored: TypeAlias = Any
"""RocketMQ's messages as records of a topic (``compiled.Stored``)."""


def _found() -> tuple[str, Any]:
    if os.environ.get(VARIABLE) == "off":
        return "off", None
    try:
        compiled = import_module("penstock.lane.compiled")
    except ImportError:
        return "not built", None
    return ("stale", None) if _is_stale(str(compiled.__file__)) else ("on", compiled)


def _is_stale(path: str) -> bool:
    """True in a clone that has changed since it was installed."""
    folder = os.path.dirname(path)
    if not os.path.exists(os.path.join(folder, "..", "..", "..", "hatch_build.py")):
        return False
    sources = glob(os.path.join(folder, "*.p[yx][xi]"))
    return os.path.getmtime(path) < max(map(os.path.getmtime, sources), default=0)


STATE, COMPILED = _found()
"""The state of compiled code, a name among ``_MEANINGS``, and its module or None."""


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


def _none(*_: Any) -> None:
    """Without compiled code there is nothing."""


Commands: TypeAlias = Intake
"""The intake of a connection that speaks NSQ."""
Requests: TypeAlias = Intake
"""The intake of a connection that speaks HTTP."""
Sends: TypeAlias = Intake
"""The intake of a connection that speaks RocketMQ's remoting."""
publisher: Callable[..., Publisher | None] = _none
"""The way into the topics of a node: ``(commits, topics)``."""
frames_of_mpub: Callable[..., Any] = _none
"""The messages of an MPUB from its count on, as ``Bodies``; None if it is not whole or legal:
``(data, max_msg_size, max_body_size)``."""
stored_of: Callable[..., Stored | None] = _none
"""The messages of a batch of RocketMQ's as records of a queue; None if one is not plain ASCII:
``(body, properties for each, topic with its length, born host, store host, queue, sysFlag, born ms,
reconsumeTimes, physical offset of id 0)``. Hosts are an IP and 4 bytes of a port."""
fields_of: Callable[[bytes], dict[str, str] | None] = _none
"""The fields of a binary header of RocketMQ's; None if they are not plain ASCII, or cut short."""
if COMPILED is not None:
    Commands = COMPILED.Commands  # type: ignore[misc]  # a class, and chosen once
    Requests = COMPILED.Requests  # type: ignore[misc]
    Sends = COMPILED.Sends  # type: ignore[misc]
    publisher = COMPILED.Publisher
    frames_of_mpub = COMPILED.frames_of_mpub
    stored_of = COMPILED.stored_of
    fields_of = COMPILED.fields_of


def meaning() -> str:
    """The meaning of ``STATE``, for people."""
    return _MEANINGS[STATE]
