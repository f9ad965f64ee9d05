"""A page of messages as nodes tell it and the API hands it on (nsqd's peek, docs/beyond-nsq.md)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from penstock.admin.cluster.fanout import Warnings


class Origin(Struct):
    """Where a dead letter came from; `dead_since` is wall-clock ns."""

    topic: str
    channel: str
    id: str
    attempts: int
    dead_since: int


class Message(Struct):
    """A message; times are wall-clock ns, `size` is in bytes. The body is a preview."""

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
    """Some messages; `next` is the `from` of the next page, None if no page follows."""

    messages: list[Message]
    next: int | str | None = None
    count: int | UnsetType = UNSET


def shown(page: Page, warnings: Warnings, **where: str) -> dict[str, Any]:
    """The answer of the API: from where, the page, the warnings."""
    counted = {} if page.count is UNSET else {"count": page.count}
    return {
        **where,
        **counted,
        "messages": page.messages,
        "next": page.next,
        "message": warnings.message,
    }
