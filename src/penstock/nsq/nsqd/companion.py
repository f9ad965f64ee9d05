"""A broker of another dialect beside nsqd, over the same topics; whoever starts nsqd brings it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.broker.group_figures import ConsumerGroup, ProducerGroup
    from penstock.broker.topic import Topic
    from penstock.nsq.nsqd.daemon import Nsqd
    from penstock.nsq.nsqd.log_views import LogView


class Companion(Protocol):
    """What nsqd tells it."""

    async def start(self, nsqd: Nsqd) -> None:
        """Nsqd listens. Raises PenstockError when it cannot go on; ``close`` comes even then."""
        ...

    def topic_created(self, topic: Topic) -> None:
        """There is a new topic. Raises StorageError."""
        ...

    def topic_deleted(self, name: str) -> None:
        """A topic is gone. Raises StorageError."""
        ...

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        """Its groups that consume a topic."""
        ...

    def producer_groups(self) -> list[ProducerGroup]:
        """Its groups of producers, of whatever topics."""
        ...

    def log_view(self) -> LogView | None:
        """The log as readers of its dialect see it; None while it does not run."""
        ...

    async def close(self) -> None:
        """Nsqd takes no more connections, and will soon close its topics."""
        ...
