"""A producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.rocketmq.client.aio.hub import AioHub, future_of
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError, Stopped
from penstock.rocketmq.client.message import Message
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

_FAILURES_MAX = 100


class Producer(ClientView):
    """A producer for the brokers that name servers know.

        async with Producer("orders", "127.0.0.1:9876") as producer:
            await producer.send(Message("orders", b"tea"))

    Connections are made when they are first needed, and again after a loss. A send that fails for
    a reason that another broker may not have goes on to the next one. Sends run side by side: what
    is sent in one pass of the loop is one write to each broker.

    ``on_check`` makes a producer of transactions: it is given a half message of which a broker does
    not know the end, and returns its TransactionState.

    Raises ConfigError for options, and BadName for a group, that cannot be used.
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
        self._hub: AioHub = AioHub(config_at(namesrv_addr, config), clock, chance)
        self._publisher = Publisher(group, self._hub)
        self._transactions = Transactions(self._publisher, on_check)
        self._requests = Requests(self._publisher)
        self._failures: list[BaseException] = []

    async def __aenter__(self) -> Producer:
        self._publisher.begin()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Messages of ``send_soon`` that are under way."""
        return self._publisher.pending

    # --- sending ---------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: QueueWanted = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> SendResult:
        """Send one and wait until a broker has it. Raises ClientError.

        ``queue`` is one of ``queues``, or a function that is given all of them and chooses one.
        """
        return await self._hub.run(self._publisher.send(message, queue, timeout))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: QueueWanted = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[SendResult]:
        """Send messages of one topic together; those that are too long for one batch in several.

        Raises the ClientError of the first batch that failed: those before it were stored.
        """
        return await self._hub.run(self._publisher.send_batch(messages, queue, timeout))

    async def send_one_way(self, message: Message, *, queue: QueueWanted = None) -> None:
        """Send one and ask for no answer: nobody knows whether it was stored."""
        address = await self._hub.run(self._publisher.send_one_way(message, queue))
        await self._hub.drained(address)

    async def send_soon(
        self, message: Message, *, queue: QueueWanted = None
    ) -> asyncio.Future[SendResult]:
        """Send one and go on; the future has what became of it.

        Waits only while ``max_pending`` messages are under way. An error that nobody looks at is
        raised by ``flush``.
        """
        publisher = self._publisher
        while publisher.is_full:
            await future_of(publisher.settled())
        future = future_of(publisher.send_soon(message, queue))
        future.add_done_callback(self._note)
        return future

    def _note(self, future: asyncio.Future[SendResult]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and len(self._failures) < _FAILURES_MAX:
            self._failures.append(error)

    async def flush(self) -> None:
        """Wait until nothing is under way. Raises the first error of ``send_soon`` since."""
        while self._publisher.pending:
            await future_of(self._publisher.settled())
        await asyncio.sleep(0)  # the futures' callbacks
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    async def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> TransactionResult:
        """Store a message, do ``execute(message)``, and deliver it if that returns COMMIT.

        When ``execute`` raises, that is raised here, and the broker asks ``on_check`` later.
        """
        return await self._hub.run(self._transactions.send(message, execute, timeout))

    async def request(
        self,
        message: Message,
        *,
        timeout: float = 3.0,  # noqa: ASYNC109
        queue: QueueWanted = None,
    ) -> Received:
        """Send a message and wait for its consumer's reply. Raises NoReply, ClientError."""
        return await self._hub.run(self._requests.request(message, timeout, queue))

    async def reply(self, request: Received, body: bytes) -> SendResult:
        """Answer a request that was consumed."""
        return await self._hub.run(self._requests.reply(request, body))

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a message that waits for its time, by the ``recall_handle`` of its send.

        Returns its id. Raises ClientError: brokers allow it with recallMessageEnable=true only.
        """
        return await self._hub.run(self._publisher.recall(topic, handle))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written."""
        return await self._hub.run(self._publisher.queues(topic))

    async def close(self) -> None:
        """Leave the group and close; what is under way fails. ``flush`` before, to wait."""
        if self._hub.is_closed:
            return
        try:
            await self._hub.run(self._publisher.leave())
        except (ClientError, Stopped):
            pass
        finally:
            await self._hub.end()
