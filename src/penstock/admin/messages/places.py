"""Places in a topic's log over several nodes, and the text by which a request goes on there.

Each node counts the offsets of its log by itself, so a place in all of them is an offset a node:
``after:127.0.0.1:4151@17-17,…``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.net.http.server.api import ApiError

NODES_MAX: Final = 256
"""Nodes that one request asks."""
_PLACE: Final = re.compile(r"([^@,]{1,300})@([0-9]{1,19})-([0-9]{1,19})")


class Place(NamedTuple):
    """The offsets that are still to be read on a node: ``at`` up to, not including, ``end``."""

    node: str
    at: int
    end: int


def text_of(kind: str, places: Iterable[Place]) -> str:
    """The text that leads there again: ``scan:127.0.0.1:4151@17-90,…``."""
    return f"{kind}:" + ",".join(f"{node}@{at}-{end}" for node, at, end in places)


def read_text(kind: str, text: str) -> dict[str, Place] | None:
    """Places by node; None if the text is of another kind. ApiError 400 INVALID_ARG_FROM."""
    if not text.startswith(f"{kind}:"):
        return None
    parts = text.removeprefix(f"{kind}:").split(",")
    found = [_PLACE.fullmatch(part) for part in parts[: NODES_MAX + 1]]
    if len(found) > NODES_MAX or None in found:
        raise ApiError(400, "INVALID_ARG_FROM")
    places = (Place(each[1], int(each[2]), int(each[3])) for each in found if each)
    return {place.node: place for place in places}
