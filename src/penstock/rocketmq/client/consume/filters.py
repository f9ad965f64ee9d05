"""Filters of a topic's messages: all, some tags, or an SQL92 expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadFilter
from penstock.rocketmq.protocol import membership
from penstock.rocketmq.protocol.codes import ResponseCode

ALL: Final = "*"
TAG, SQL92 = "TAG", "SQL92"


@dataclass(frozen=True, slots=True)
class Filter:
    """An expression and its language."""

    text: str = ALL
    kind: str = TAG

    def __post_init__(self) -> None:
        if self.kind == TAG and self.text.strip() and not self.tags and self.text.strip() != ALL:
            raise BadFilter("", ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"no tags in {self.text!r}")

    @property
    def tags(self) -> list[str]:
        """The tags in ``a || b``; none for all messages, and for SQL92."""
        if self.kind != TAG or self.text.strip() in ("", ALL):
            return []
        return [each.strip() for each in self.text.split("||") if each.strip()]

    def chosen(self, messages: list[Received]) -> list[Received]:
        """The messages that are wanted: brokers compare hashes of tags only."""
        tags = frozenset(self.tags)
        return [each for each in messages if each.tags in tags] if tags else messages


def sql(text: str) -> Filter:
    """An SQL92 expression over messages' properties, such as ``amount > 5 AND TAGS = 'a'``."""
    return Filter(text, SQL92)


def filter_of(wanted: str | Filter) -> Filter:
    """A text is tags."""
    return wanted if isinstance(wanted, Filter) else Filter(wanted or ALL)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic, as servers know it, and what is wanted of it. The newest ``version`` counts."""

    topic: str
    filter: Filter
    version: int

    def as_json(self) -> dict[str, Any]:
        """The form that heartbeats have."""
        wanted = self.filter
        return membership.subscription(
            self.topic, wanted.text or ALL, wanted.kind, self.version, wanted.tags
        )
