"""A consumer for asyncio: a channel of a topic, over the connections to all nodes that have it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

from penstock.core.errors import PenstockError
from penstock.net.tasks import spawn
from penstock.nsq.client.aio.link import Link
from penstock.nsq.client.config import Config
from penstock.nsq.client.delivery import Delivery
from penstock.nsq.client.errors import ClientError, NotConnected
from penstock.nsq.client.lookup import ACCEPT, lookup_url, parse_answer
from penstock.nsq.client.message import Message
from penstock.nsq.client.names import checked_addresses, checked_channel, checked_topic
from penstock.nsq.client.ready import shares
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, MessageBlock

_log = logging.getLogger("penstock.nsq.client")

_TURN_S = 5.0


class Consumer:
    """Consumes a channel of a topic from given nodes, and from those that nsqlookupd names.

    At most ``max_in_flight`` messages are unanswered at once, over all connections. Nodes that
    cannot be reached are tried again every ``reconnect_delay`` seconds; nsqlookupds are asked every
    ``lookupd_poll_interval`` seconds, and soon after a connection was lost. A node that refuses the
    subscription makes the iteration raise its ServerError.
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqd_tcp_addresses: Iterable[str] = (),
        lookupd_http_addresses: Iterable[str] = (),
        max_in_flight: int = 1,
        config: Config | None = None,
        reconnect_delay: float = 1.0,
        lookupd_poll_interval: float = 60.0,
    ) -> None:
        self.topic = checked_topic(topic, "SUB")
        self.channel = checked_channel(channel)
        self.max_in_flight = max_in_flight
        self._config = config or Config()
        self._direct = checked_addresses(nsqd_tcp_addresses)
        self._lookupds = list(lookupd_http_addresses)
        self._reconnect_delay = reconnect_delay
        self._poll_interval = lookupd_poll_interval
        self._links: dict[str, Link] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._deliveries: deque[Delivery] = deque()
        self._messages: deque[Message] = deque()
        self._error: ClientError | None = None
        self._news = asyncio.Event()
        self._poll_now = asyncio.Event()
        self._turn = 0
        self._started = False
        self._closed = False

    async def __aenter__(self) -> Consumer:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def connections(self) -> list[str]:
        """The addresses connected at present."""
        return sorted(self._links)

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        return sum(link.in_flight for link in self._links.values())

    def start(self) -> None:
        """Begin to connect, in the background."""
        if self._started:
            return
        self._started = True
        for address in self._direct:
            self._keep(address)
        if self._lookupds:
            self._run("lookup", self._poll_for_ever())
        self._run("turns", self._take_turns())

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        """The next message; ends when the consumer is closed."""
        while not self._messages:
            delivery = await self._next_delivery()
            self._messages.extend(delivery.messages())
        return self._messages.popleft()

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Messages as they arrive together, until the consumer is closed: the quick way.

        Not at the same time as the iteration over messages.
        """
        while True:
            try:
                delivery = await self._next_delivery()
            except StopAsyncIteration:
                return
            yield delivery

    async def _next_delivery(self) -> Delivery:
        self.start()
        while not self._deliveries:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._deliveries.popleft()

    async def get(self, timeout: float | None = None) -> Message | None:  # noqa: ASYNC109
        """The next message, or None after ``timeout`` seconds or when the consumer is closed."""
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except (TimeoutError, StopAsyncIteration):
            return None

    async def close(self, grace: float = 5.0) -> None:
        """Stop receiving, give back what was not handed out, and close.

        Messages handed out may be answered for another ``grace`` seconds; those that are not come
        again after their time-out.
        """
        if self._closed:
            return
        self._closed = True
        self._news.set()
        tasks = list(self._tasks.values())
        links = list(self._links.values())
        for link in links:
            link.send(encode.CLS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(link.left.wait() for link in links))
                self._give_back()
                await asyncio.gather(*(link.idle.wait() for link in links))
        self._give_back()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(link.close() for link in links), return_exceptions=True)
        self._tasks.clear()

    def _give_back(self) -> None:
        while self._messages:
            self._messages.popleft().requeue()
        while self._deliveries:
            self._deliveries.popleft().requeue()

    # Connections

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = spawn(work, f"nsq consumer {self.topic}/{self.channel} {name}")

    def _keep(self, address: str) -> None:
        if address not in self._tasks and not self._closed:
            self._run(address, self._stay_connected(address))

    async def _stay_connected(self, address: str) -> None:
        try:
            while True:
                known_good = await self._connect(address)
                if not known_good and address not in self._direct:
                    return  # nsqlookupd will name it again if it comes back
                await asyncio.sleep(self._reconnect_delay)
        except ClientError as error:
            self._error = error
            self._news.set()
        finally:
            self._tasks.pop(address, None)

    async def _connect(self, address: str) -> bool:
        """One connection's whole life. False when the node is not worth trying again."""
        try:
            link = await Link.open(
                address,
                self._config,
                (self.topic, self.channel),
                on_frame=self._take,
                on_lost=self._lost,
            )
        except NotConnected as error:
            _log.warning("%s", error)
            self._poll_now.set()
            return False
        if link.is_open:  # it may be lost again by the time we get here
            self._links[address] = link
            self._share()
            await link.closed.wait()
        return True

    def _lost(self, link: Link, error: NotConnected) -> None:
        if self._links.get(link.address) is link:
            del self._links[link.address]
        if not self._closed:
            _log.warning("%s", error)
            # What it brought and nobody has seen yet comes again over another connection.
            self._messages = deque(one for one in self._messages if one.is_alive)
            self._deliveries = deque(one for one in self._deliveries if one.is_alive)
            self._share()
            self._poll_now.set()

    def _take(self, link: Link, frame: Frame) -> None:
        if isinstance(frame, MessageBlock):
            link.add_in_flight(frame.count)
            self._deliveries.append(Delivery(link, frame))
            self._news.set()
        elif isinstance(frame, Error):
            _log.warning("%s: %s", link.address, frame.text)
        elif frame.data == b"CLOSE_WAIT":
            link.left.set()

    def _share(self) -> None:
        """Give every connection its RDY, those that get less first."""
        if self._closed:
            return
        links = list(self._links.values())
        counts = shares(self.max_in_flight, len(links), self._turn)
        for link, count in sorted(zip(links, counts, strict=True), key=lambda pair: pair[1]):
            link.set_ready(count)

    async def _take_turns(self) -> None:
        """With more connections than messages wanted, let each of them have its time."""
        while True:
            await asyncio.sleep(_TURN_S)
            if len(self._links) > self.max_in_flight:
                self._turn += 1
                self._share()

    # Lookup

    async def _poll_for_ever(self) -> None:
        while True:
            self._poll_now.clear()
            for address in self._lookupds:
                await self._poll(address)
            await asyncio.sleep(self._reconnect_delay)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval):
                    await self._poll_now.wait()

    async def _poll(self, address: str) -> None:
        from penstock.net.http_client import get

        try:
            url = lookup_url(address, self.topic)
            answer = await get(url, self._config.dial_timeout, headers={"Accept": ACCEPT})
            for node in parse_answer(answer.status, answer.body):
                self._keep(node.tcp_address)
        except PenstockError as error:
            _log.warning("lookup of %s at %s: %s", self.topic, address, error)
