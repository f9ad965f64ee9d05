"""The logs of a copy for those who read them: topics without channels, as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import Clock
from penstock.replication.copy import Copy


class CopiedTopics(Mapping[str, Topic]):
    """The topics of a copy by name."""

    def __init__(self, copy: Copy, clock: Clock) -> None:
        self._copy = copy
        self._clock = clock
        self._made: dict[str, Topic] = {}
        copy.leaving.append(self._left)

    def _left(self, name: str) -> None:
        self._made.pop(name, None)

    def __getitem__(self, name: str) -> Topic:
        copied = self._copy.topics[name]
        log = copied.log
        made = self._made.get(name)
        if made is None or made.log is not log:
            made = self._made[name] = Topic(name, log, None, clock=self._clock,
                                            chance=SystemChance(), alarms=Alarms(),
                                            options=ChannelOptions())  # fmt: skip
        made.queues = copied.queues
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._copy.topics)

    def __len__(self) -> int:
        return len(self._copy.topics)
