"""A lite pull consumer on plain sockets: messages are asked for when they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.filters import Filter, filter_of
from penstock.rocketmq.client.consume.lite_pull import LitePull
from penstock.rocketmq.client.consume.pulling import Pulled
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError, Stopped
from penstock.rocketmq.client.views import ConsumerView
from penstock.rocketmq.protocol.message_queue import MessageQueue

T = TypeVar("T")


class LitePullConsumer(ConsumerView):
    """A consumer that polls, of queues shared with the group's members or chosen by hand.

    **Nothing runs in the background**: poll again within two minutes, or the group's other members
    get the queues.

        with LitePullConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")           # or: consumer.assign(queues)
            while messages := consumer.poll():
                ...

    What a ``poll`` has given is done with the next one; with ``auto_commit`` False, with
    ``commit``.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str = "",
        *,
        config: Config | None = None,
        auto_commit: bool = True,
        allocate: Allocate = averagely,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: BlockingHub = BlockingHub(config_at(namesrv_addr, config), clock, chance)
        self._core: LitePull = LitePull(
            group, self._hub, allocate=allocate, auto_commit=auto_commit
        )
        self._is_started = False
        self._is_closed = False

    def __enter__(self) -> LitePullConsumer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close; what was polled last is not done when the block has ended with an exception."""
        if kind is not None:
            self._core.give_up_polled()
        self.close()

    def start(self) -> None:
        """Join the group, and pull; ``poll`` does so as well. Raises ClientError."""
        if not self._is_started:
            self._hub.run(self._core.begin())
            self._is_started = True

    # --- messages --------------------------------------------------------------------------------

    def poll(
        self,
        timeout: float | None = 5.0,
        max_messages: int | None = None,
    ) -> list[Received]:
        """Messages of one queue, up to ``pull_batch_size``; none after ``timeout`` seconds.

        None waits for ever. Raises ClientError.
        """
        most = max_messages or self._hub.config.pull_batch_size
        return self._wait_for(lambda: self._core.poll(most), timeout)

    def _wait_for(self, ask: Callable[[], T], timeout: float | None) -> T:
        """Ask again and again, until there is something or the time is over."""
        if self._is_closed:
            raise Stopped
        self.start()
        clock = self._hub.clock.monotonic_ns
        end = None if timeout is None else clock() + int(timeout * SECOND)
        self._hub.work(0)
        while not (found := ask()):
            left = None if end is None else (end - clock()) / SECOND
            if left is not None and left <= 0:
                break
            self._hub.work(left)
        return found

    def __iter__(self) -> Iterator[Received]:
        """One message after the other, until the consumer is closed. A message is done when the
        next one is asked for; one in whose midst the block ends with an exception is not.
        """
        most = self._hub.config.pull_batch_size
        while not self._is_closed:
            self._wait_for(lambda: self._core.begin_loop(most), None)
            for message in self._core.each():
                yield message
                if self._is_closed:
                    return
                self._hub.breathe()

    def commit(self) -> None:
        """Commit all that was polled; the brokers know it when this returns."""
        self._hub.run(self._core.commit_polled())

    # --- places ----------------------------------------------------------------------------------

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Have these queues, whoever else has them. Raises ClientError."""
        self._hub.run(self._core.assign(queues))
        self.start()
        self._hub.run(self._core.share_now())

    def topic_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. Raises ClientError."""
        return self._hub.run(self._core.queues_of(topic))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on there in a queue that it has. Raises NotAssigned."""
        self._core.seek_to(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on with the oldest message."""
        self.seek(queue, self.min_offset(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that comes."""
        self.seek(queue, self.max_offset(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message."""
        return self._hub.run(self._core.bounds.first(self._core.own(queue)))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._hub.run(self._core.bounds.end(self._core.own(queue)))

    def offset_at(self, queue: MessageQueue, timestamp: float) -> int:
        """The offset of the first message stored at this Unix time or later."""
        return self._hub.run(self._core.bounds.at(self._core.own(queue), timestamp))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None where it has not been."""
        return self._hub.run(self._core.offsets.read(self._core.own(queue)))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wanted: str | Filter = "*",
        *,
        max_messages: int = 32,
        suspend: float = 0.0,
    ) -> Pulled:
        """Pull once, of any queue and beside all that; the broker may wait ``suspend`` seconds."""
        wanted = filter_of(wanted)
        return self._hub.run(self._core.pull(queue, offset, wanted, max_messages, suspend))

    def close(self) -> None:
        """Commit, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        self._core.stop()
        try:
            if self._is_started:
                self._hub.run(self._core.leave())
        except ClientError:
            pass
        finally:
            self._hub.close()
