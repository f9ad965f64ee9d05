"""Committed offsets of groups in the queues of topics (RocketMQ spec 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

_AT: Final = "@"
FAR: Final = (1 << 63) - 1
"""The answer to QUERY_CORRECTION_OFFSET for a queue in which another group is ahead."""
OFFSETS_MAX: Final = 1_000_000
"""Queues of topics of groups; clients may name any, so there is an end to it."""


class ConsumerOffsets:
    """Committed offsets by topic, group and queue."""

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self._groups: dict[str, dict[str, None]] = {}  # by topic, in the order they came
        self._topics: dict[str, dict[str, None]] = {}  # by group, likewise
        self._count = 0
        self.listeners: list[Callable[[tuple[str, str], int], None]] = []
        """Called by ``moved`` with topic and group, and the queue."""

    def commit(self, topic: str, group: str, queue: int, offset: int) -> None:
        """A group has come so far.

        Raises BodyError when there are too many offsets, or a name cannot be one.
        """
        queues = self._table.get((topic, group))
        if queues is None or queue not in queues:
            if _AT in topic:  # the file could not tell where the group's name begins
                raise BodyError(f"the name of a topic holds no {_AT}")
            if self._count >= OFFSETS_MAX:
                raise BodyError(f"more than {OFFSETS_MAX} offsets are committed")
            if len(topic) > names.INNER_TOPIC_LENGTH_MAX or len(group) > names.GROUP_LENGTH_MAX:
                raise BodyError("the name of a topic or group is too long")
            self._count += 1
            queues = self._table.setdefault((topic, group), {})
            self._groups.setdefault(topic, {})[group] = None
            self._topics.setdefault(group, {})[topic] = None
        queues[queue] = offset

    def moved(self, topic: str, group: str, queue: int) -> None:
        """Let the listeners know that a client or a tool has set an offset."""
        for listener in self.listeners:
            listener((topic, group), queue)

    def query(self, topic: str, group: str, queue: int) -> int | None:
        """The committed offset of a group; None when it never committed."""
        return self._table.get((topic, group), {}).get(queue)

    def of(self, topic: str, group: str) -> dict[int, int]:
        """A group's offsets in a topic by queue, a copy."""
        return dict(self._table.get((topic, group), {}))

    def furthest(self, topic: str) -> dict[int, int]:
        """The greatest offset that any group has committed, by queue."""
        furthest: dict[int, int] = {}
        for group in self.groups_of(topic):
            for queue, offset in self._table[topic, group].items():
                furthest[queue] = max(offset, furthest.get(queue, 0))
        return furthest

    def topics_of(self, group: str) -> list[str]:
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        return list(self._groups.get(topic, ()))

    def clone(self, source: str, target: str, topic: str | None) -> None:
        """Copy the offsets of one group to another, of one topic or of all. Raises BodyError."""
        if source == target:
            return
        for name in [topic] if topic else self.topics_of(source):
            found = self._table.get((name, source))
            if found is not None:
                # All of the old ones, as the source may have fewer queues.
                self._forget([(name, target)])
                for queue, offset in found.copy().items():
                    self.commit(name, target, queue, offset)

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

    def forget(self, topic: str, group: str) -> None:
        self._forget([(topic, group)])

    def forget_topic(self, topic: str) -> None:
        self._forget([(topic, group) for group in self.groups_of(topic)])

    def forget_group(self, group: str) -> None:
        self._forget([(topic, group) for topic in self.topics_of(group)])

    def _forget(self, keys: Iterable[tuple[str, str]]) -> None:
        for topic, group in keys:
            self._count -= len(self._table.pop((topic, group), ()))
            _remove(self._groups, topic, group)
            _remove(self._topics, group, topic)

    def as_json(self) -> dict[str, Any]:
        """The table as the Java classes print it; also the content of the offsets file."""
        table = {f"{topic}{_AT}{group}": dict(o) for (topic, group), o in self._table.items()}
        return {"offsetTable": table}

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        found = self.from_json(value)
        self._table, self._count = found._table, found._count
        self._groups, self._topics = found._groups, found._topics

    @classmethod
    def from_json(cls, value: Any) -> ConsumerOffsets:
        """Parse the table's JSON. Raises BodyError."""
        table = value.get("offsetTable") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("consumer offsets without offsetTable")
        offsets = cls()
        for key, queues in table.items():
            topic, at, group = str(key).partition(_AT)
            if not at:
                raise BodyError(f"the key {key!r} of consumer offsets is not a topic@group")
            if len(group) > names.GROUP_LENGTH_MAX:
                continue  # of a topic with an @, which earlier versions took
            for queue, offset in fastjson.int_keys(queues).items():
                if type(offset) is not int:
                    raise BodyError(f"the offset {offset!r} of {key!r} is not a number")
                offsets.commit(topic, group, queue, offset)
        return offsets


def _remove(names_by: dict[str, dict[str, None]], key: str, name: str) -> None:
    found = names_by.get(key, {})
    found.pop(name, None)
    if not found:
        names_by.pop(key, None)
