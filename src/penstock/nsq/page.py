"""A page of messages as nodes tell it: the answer of nsqd's peek (docs/beyond-nsq.md)."""

from __future__ import annotations

import base64
import codecs
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class Origin(Struct):
    """The origin of a dead letter; ``dead_since`` is wall-clock ns."""

    topic: str
    channel: str
    id: str
    attempts: int
    dead_since: int


class Message(Struct):
    """A message; times are wall-clock ns, ``size`` is in bytes. The body is a preview."""

    offset: int
    id: str
    timestamp: int
    state: str
    attempts: int
    size: int
    body: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    deadline: int | UnsetType = UNSET
    remaining_ms: int | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


class Page(Struct):
    """Some messages; ``next`` is the ``from`` of the next page, None if no page follows."""

    messages: list[Message]
    next: int | str | None = None
    count: int | UnsetType = UNSET


def shown_body(body: bytes, preview: int) -> dict[str, Any]:
    """The first ``preview`` bytes of a body as text or, when it is not UTF-8, in base64."""
    truncated = len(body) > preview
    part = body[:preview]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(part, final=not truncated)
    except UnicodeDecodeError:
        shown: dict[str, Any] = {"body_base64": base64.b64encode(part).decode()}
    else:
        shown = {"body": text}
    return shown | ({"truncated": True} if truncated else {})
