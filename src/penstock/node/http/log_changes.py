"""The logs that have changed since a reader asked last, by one number.

Each question looks at all logs, which is cheap, and gives those that differ from the last look a
new revision. So publishing costs nothing more, and a node keeps nothing for a reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from penstock.broker.topic import Topic

_State: TypeAlias = tuple[int, int, int]


class LogChanges:
    """The revisions of a node's logs; ``first`` is above all that an earlier run gave out."""

    def __init__(self, topics: Mapping[str, Topic], first: int) -> None:
        self._topics = topics
        self._seen: dict[str, tuple[_State, int]] = {}
        self._revision = self._known_since = first

    def since(self, revision: int) -> tuple[int, list[str] | None]:
        """The revision now, and the topics whose logs have changed after the given one; None where
        that is not known, as a topic was deleted or the node was started since.
        """
        self._look()
        if not self._known_since <= revision <= self._revision:
            return self._revision, None
        changed = [name for name, (_, at) in self._seen.items() if at > revision]
        return self._revision, changed

    def _look(self) -> None:
        now = self._revision + 1
        for name, topic in self._topics.items():
            log = topic.log
            state = (log.id_base, log.start_offset, log.next_offset)
            known = self._seen.get(name)
            if known is None or known[0] != state:
                self._seen[name] = state, now
                self._revision = now
        if len(self._seen) > len(self._topics):
            for gone in self._seen.keys() - self._topics.keys():
                del self._seen[gone]
            self._revision = self._known_since = now
