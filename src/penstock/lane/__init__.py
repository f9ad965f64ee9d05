"""Plain publishes in compiled code, where it was built; everything works without it.

A publish is plain if nothing about it needs a look of its own: PUB or MPUB of a known topic without
limits, whole in what was read. ``compiled`` takes these from what a connection reads, and makes one
publish of all that comes to a topic between two commits. Whatever else comes goes to the parser.

``PENSTOCK_LANE=off`` in the environment turns it off.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from penstock.broker.topic import Topic
    from penstock.lane.compiled import Publisher
    from penstock.node.commits import Commits
    from penstock.nsq.protocol.bodies import Bodies

VARIABLE: Final = "PENSTOCK_LANE"


def _found() -> tuple[str, ModuleType | None]:
    if os.environ.get(VARIABLE) == "off":
        return "off", None
    try:
        from penstock.lane import compiled
    except ImportError:
        return "not built", None
    return "on", compiled


STATE, COMPILED = _found()


def publisher(commits: Commits, topics: Mapping[str, Topic]) -> Publisher | None:
    """The way of plain publishes into a node's topics; None without compiled code."""
    return None if COMPILED is None else COMPILED.Publisher(commits, topics)


def frames_of_mpub(
    data: bytes | bytearray | memoryview, max_msg_size: int, max_body_size: int
) -> Bodies | None:
    """The messages of an MPUB, from its count on; None if it is not whole or legal, or without
    compiled code.
    """
    if COMPILED is None:
        return None
    frames: Bodies | None = COMPILED.frames_of_mpub(data, max_msg_size, max_body_size)
    return frames
