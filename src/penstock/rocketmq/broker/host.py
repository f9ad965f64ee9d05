"""What the RocketMQ broker needs of the program around it: topics, group commit, a clock."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.broker import Broker
from penstock.broker.channel import Channel
from penstock.broker.records import Records
from penstock.broker.staging import Outcome
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.net.budget import Turns


class Host(Protocol):
    """The program around; ``mqbroker`` and ``nsqd`` have one each."""

    clock: Clock
    broker: Broker
    turns: Turns
    """The turns of all dialects' connections, for when incomplete requests hold too much memory."""
    answer_turns: Turns
    """Their turns for when unsent answers hold too much memory."""

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is not there. Raises StorageError."""
        ...

    def channel(self, topic: Topic, name: str) -> Channel:
        """The channel of that name, made when it is not there."""
        ...

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic with all it holds. Raises StorageError."""
        ...

    def publish(self, topic: Topic, records: Records, done: Outcome, queue: int) -> None:
        """Append with the next commit; ``done`` is told afterwards."""
        ...

    def hold(self) -> None:
        """Commit nothing until ``release``: a connection takes all that it has read."""
        ...

    def release(self) -> bool:
        """Commit what was published since; whether that is left to the end of this pass."""
        ...
