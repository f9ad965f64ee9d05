"""A producer on plain sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Promise
from penstock.rocketmq.client.produce.publishing import Publisher, QueueWanted
from penstock.rocketmq.client.produce.request_reply import Requests
from penstock.rocketmq.client.produce.sending import SendResult
from penstock.rocketmq.client.produce.transactions import (
    Check,
    Execute,
    TransactionResult,
    Transactions,
)
from penstock.rocketmq.client.views import ClientView
from penstock.rocketmq.protocol.message_queue import MessageQueue

_FAILURES_MAX: Final = 100


class Outcome:
    """The outcome of a message of ``send_soon``."""

    __slots__ = ("_hub", "_promise")

    def __init__(self, hub: BlockingHub, promise: Promise[SendResult]) -> None:
        self._hub = hub
        self._promise = promise

    def done(self) -> bool:
        """True if it is known."""
        return self._promise.is_done

    def result(self) -> SendResult:
        """Wait for it. Raises ClientError."""
        return self._hub.wait_for(self._promise)


class Producer(ClientView):
    """A producer for the brokers that name servers know.

        with Producer("orders", "127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"tea"))

    Arguments, errors and what happens to a send that fails are those of the asyncio producer.

    **Nothing runs in the background.** What ``send_soon`` takes goes out with the next call of any
    method; ``flush`` makes sure of it. Brokers that ask about transactions are answered while a
    method is called, for which there is ``work``. Not for use by several threads at once.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str = "",
        *,
        config: Config | None = None,
        on_check: Check | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: BlockingHub = BlockingHub(config_at(namesrv_addr, config), clock, chance)
        self._publisher = Publisher(group, self._hub)
        self._transactions = Transactions(self._publisher, on_check)
        self._requests = Requests(self._publisher)
        self._failures: list[BaseException] = []

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    @property
    def pending(self) -> int:
        """Messages of ``send_soon`` that are under way."""
        return self._publisher.pending

    # --- sending ---------------------------------------------------------------------------------

    def send(
        self, message: Message, *, queue: QueueWanted = None, timeout: float | None = None
    ) -> SendResult:
        """Send one and wait until a broker has it. Raises ClientError."""
        return self._hub.run(self._publisher.send(message, queue, timeout))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: QueueWanted = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic together; those that are too long for one batch in several.

        Raises the ClientError of the first batch that failed: those before it were stored.
        """
        return self._hub.run(self._publisher.send_batch(messages, queue, timeout))

    def send_one_way(self, message: Message, *, queue: QueueWanted = None) -> None:
        """Send one and ask for no answer: nobody knows whether it was stored."""
        self._hub.drain(self._hub.run(self._publisher.send_one_way(message, queue)))

    def send_soon(self, message: Message, *, queue: QueueWanted = None) -> Outcome:
        """Send one and go on; the outcome has what became of it.

        Waits only while ``max_pending`` messages are under way. An error that nobody looks at is
        raised by ``flush``.
        """
        self._hub.catch_up()
        while self._publisher.is_full:
            self._hub.work(None)
        promise = self._publisher.send_soon(message, queue)
        promise.then(self._note)
        return Outcome(self._hub, promise)

    def _note(self, promise: Promise[SendResult]) -> None:
        if promise.error is not None and len(self._failures) < _FAILURES_MAX:
            self._failures.append(promise.error)

    def flush(self) -> None:
        """Wait until nothing is under way. Raises the first error of ``send_soon`` since."""
        while self._publisher.pending:
            self._hub.work(None)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout: float | None = None
    ) -> TransactionResult:
        """Store a message, do ``execute(message)``, and deliver it if that returns COMMIT.

        When ``execute`` raises, that is raised here, and the broker asks ``on_check`` later.
        """
        found = self._hub.run(self._transactions.send(message, execute, timeout))
        self._hub.work(0)
        return found

    def request(
        self, message: Message, *, timeout: float = 3.0, queue: QueueWanted = None
    ) -> Received:
        """Send a message and wait for its consumer's reply. Raises NoReply, ClientError."""
        return self._hub.run(self._requests.request(message, timeout, queue))

    def reply(self, request: Received, body: bytes) -> SendResult:
        """Answer a request that was consumed."""
        return self._hub.run(self._requests.reply(request, body))

    def recall(self, topic: str, handle: str) -> str:
        """Take back a message that waits for its time, by the ``recall_handle`` of its send.

        Returns its id. Raises ClientError: brokers allow it with recallMessageEnable=true only.
        """
        return self._hub.run(self._publisher.recall(topic, handle))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written."""
        return self._hub.run(self._publisher.queues(topic))

    def work(self, seconds: float = 0.0) -> None:
        """Do what is due for ``seconds``: answer brokers that ask, tell them that we are there."""
        clock = self._hub.clock.monotonic_ns
        end = clock() + int(seconds * SECOND)
        self._hub.work(0)
        while (left := end - clock()) > 0:
            self._hub.work(left / SECOND)

    def close(self) -> None:
        """Leave the group and close; what is under way fails. ``flush`` before, to wait."""
        if not self._hub.is_closed:
            with contextlib.suppress(ClientError):
                self._hub.run(self._publisher.leave())
            self._hub.close()
