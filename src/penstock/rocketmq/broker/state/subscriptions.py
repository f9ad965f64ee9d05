"""A consumer's filter on a topic: tags or an SQL92 expression (RocketMQ spec 4.1, 4.13).

A broker compares hashes of tags only; that two tags share one is for the client to notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, Final

from penstock.rocketmq.broker.state.sql92 import Expression, ExpressionError
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.messages import properties

TAG: Final = "TAG"
SQL92: Final = "SQL92"
ALL: Final = "*"
TEXT_MAX: Final = 16 * 1024


@dataclass
class Subscription:
    """One topic of a group. ``version`` grows when the client changes its mind."""

    topic: str
    text: str = ALL
    kind: str = TAG
    version: int = 0
    tags: list[str] = field(default_factory=list)
    problem: str | None = None
    """The reason why the text makes no sense; such a subscription matches nothing."""
    born_ms: int = 0
    """The time of the first heartbeat that named it."""

    @classmethod
    def parse(
        cls, topic: str, text: str | None, kind: str | None = None, version: int = 0
    ) -> Subscription:
        """From the text of a pull or a heartbeat: ``*``, ``A || B`` or SQL.

        Raises ExpressionError for bad SQL, BodyError for an unknown kind or no tags at all.
        """
        kind = kind or TAG
        if kind not in (TAG, SQL92):
            raise BodyError(f"the expression type {shortened(kind)} is not TAG or SQL92")
        if kind == SQL92:
            subscription = cls(topic, text or "", SQL92, version)
            # Parsed here, so that the error is raised here; the property keeps it for the first
            # message.
            _ = subscription.expression
            return subscription
        # Java takes an absent filter, an empty one and * for all messages.
        if not text or text == ALL:
            return cls(topic, ALL, TAG, version)
        if len(text) > TEXT_MAX:
            raise BodyError(f"a subscription of more than {TEXT_MAX} characters")
        # C++ clients send this text alone, without the sets of tags and hashes that Java's send.
        tags = [tag.strip() for tag in text.split("||")]
        tags = list(dict.fromkeys(tag for tag in tags if tag))
        if not tags:
            raise BodyError(f"subString split error: {shortened(text)}")
        return cls(topic, text, TAG, version, tags)

    @classmethod
    def from_json(cls, value: Any) -> Subscription:
        """From a heartbeat, as any client writes it. Raises BodyError.

        A text that makes no sense is kept with its ``problem``: a heartbeat says more than that.
        """
        if not isinstance(value, dict) or not isinstance(value.get("topic"), str):
            raise BodyError("a subscription without topic")
        kind, text = value.get("expressionType"), value.get("subString")
        kind = kind if isinstance(kind, str) else None
        text = text if isinstance(text, str) else None
        version = _version(value.get("subVersion", 0))
        try:
            return cls.parse(value["topic"], text, kind, version)
        except (BodyError, ExpressionError) as error:
            kept = (text or "")[:TEXT_MAX]
            # Kept though it matches nothing: tools show what the client asked for, and why that
            # fails.
            return cls(value["topic"], kept, kind or TAG, version, problem=str(error))

    def as_json(self) -> dict[str, Any]:
        """The subscription as the Java classes print it."""
        return {
            "classFilterMode": False,
            "codeSet": [java_hash(tag) for tag in self.tags],
            "expressionType": self.kind,
            "subString": self.text,
            "subVersion": self.version,
            "tagsSet": self.tags,
            "topic": self.topic,
        }

    @cached_property
    def expression(self) -> Expression:
        return Expression(self.text)

    @cached_property
    def codes(self) -> frozenset[int]:
        """Hashes of the wanted tags."""
        return frozenset(java_hash(tag) for tag in self.tags)

    @property
    def wants_all(self) -> bool:
        return self.kind == TAG and not self.tags and self.problem is None

    def matches(self, text: str) -> bool:
        """True if a message with these properties (as text) is wanted."""
        if self.problem is not None:
            return False
        if self.kind == SQL92:
            return self.expression.matches(properties.parse(text))
        if not self.tags:
            return True
        tag = properties.value_of(text, properties.TAGS)
        # As in Java the hash decides; clients compare the texts, so a collision costs bytes alone.
        return tag is not None and java_hash(tag) in self.codes


def _version(value: Any) -> int:
    """A number, or the text of one; 0 for anything else."""
    try:
        # C++ sends the version as a text, Go in nanoseconds: only larger or smaller counts.
        return int(str(value))
    except ValueError:
        return 0
