"""How far groups have come in the queues of topics (reference 2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

_AT: Final = "@"
FAR: Final = (1 << 63) - 1
"""What QUERY_CORRECTION_OFFSET answers for a queue in which another group is ahead."""


class ConsumerOffsets:
    """Committed offsets by topic, group and queue."""

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self.changed = False

    def commit(self, topic: str, group: str, queue: int, offset: int) -> None:
        """A group has come so far."""
        self._table.setdefault((topic, group), {})[queue] = offset
        self.changed = True

    def query(self, topic: str, group: str, queue: int) -> int | None:
        """How far a group is; None when it never committed."""
        return self._table.get((topic, group), {}).get(queue)

    def of(self, topic: str, group: str) -> dict[int, int]:
        """A group's offsets in a topic by queue, a copy."""
        return dict(self._table.get((topic, group), {}))

    def topics_of(self, group: str) -> list[str]:
        return [topic for topic, other in self._table if other == group]

    def groups_of(self, topic: str) -> list[str]:
        return [group for other, group in self._table if other == topic]

    def clone(self, source: str, target: str, topic: str | None) -> None:
        """Copy the offsets of one group to another, of one topic or of all."""
        for name in [topic] if topic else self.topics_of(source):
            found = self._table.get((name, source))
            if found is not None:
                self._table[name, target] = dict(found)
                self.changed = True

    def least(self, topic: str, compare_group: str, without: set[str]) -> dict[int, int]:
        """The least offset of each queue over all groups but those ``without``.

        Where it is above that of ``compare_group`` it is ``FAR``.
        """
        found: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group not in without:
                for queue, offset in self._table[topic, group].items():
                    found[queue] = min(offset, found.get(queue, offset))
        own = self.of(topic, compare_group)
        return {q: FAR if q in own and least > own[q] else least for q, least in found.items()}

    def forget_topic(self, topic: str) -> None:
        self._forget(key for key in list(self._table) if key[0] == topic)

    def forget_group(self, group: str) -> None:
        self._forget(key for key in list(self._table) if key[1] == group)

    def _forget(self, keys: Iterator[tuple[str, str]]) -> None:
        for key in keys:
            del self._table[key]
            self.changed = True

    def as_json(self) -> dict[str, Any]:
        """As the Java classes print it; also what is kept in the offsets file."""
        table = {f"{topic}{_AT}{group}": dict(o) for (topic, group), o in self._table.items()}
        return {"offsetTable": table}

    @classmethod
    def from_json(cls, value: Any) -> ConsumerOffsets:
        """Raises BodyError."""
        table = value.get("offsetTable") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("consumer offsets without offsetTable")
        offsets = cls()
        for key, queues in table.items():
            topic, at, group = str(key).partition(_AT)
            if not at:
                raise BodyError(f"the key {key!r} of consumer offsets is no topic@group")
            for queue, offset in fastjson.int_keys(queues).items():
                if type(offset) is not int:
                    raise BodyError(f"the offset {offset!r} of {key!r} is no number")
                offsets.commit(topic, group, queue, offset)
        offsets.changed = False
        return offsets
