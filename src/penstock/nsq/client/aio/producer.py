"""A producer for asyncio: publishes share connections, and answers come in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Never

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.nsq.client.aio.node import Node
from penstock.nsq.client.config import Config, refuse_unknown
from penstock.nsq.client.delays import deferral_ms
from penstock.nsq.client.errors import ClientError, Stopped
from penstock.nsq.client.hosts import hosts_of
from penstock.nsq.client.names import checked_addresses
from penstock.nsq.client.publishing import (
    BODY_BYTES_MAX,
    PendingPublishes,
    Request,
    Router,
    Topics,
    checked_body,
    checked_bound,
    parts_of,
)

UNANSWERED_MAX: Final = 8
"""From this number of unanswered commands on, single messages wait and are sent together."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One of a producer's nodes, as it is now."""

    address: str
    is_connected: bool
    is_dead: bool
    """True for a node that failed lately: the last resort, until its time has come."""
    unanswered: int
    """Commands sent that wait for their answers."""
    error: ClientError | None
    """The reason why the last connection ended, or could not be had."""


class Producer:
    """A producer for one node, or for several that stand in for each other.

    Connections are made when they are first needed, and again after a loss. Which node is next says
    ``mode``, one of ``hosts.MODES``; a publish whose node cannot be reached, or cannot store it,
    goes on to another. When a connection is lost before the answer, the node may or may not have
    the message: with ``resend`` it is sent again (at least once), without it NotConnected is raised
    (at most once).

    Publishes run side by side: what is published in one pass of the loop is one write, and single
    messages to one topic become one command. At most ``max_pending`` messages and about
    ``max_pending_bytes`` are under way; more wait for their turn. A refusal is the ServerError of
    its code, such as Unauthorized, and concerns the messages that were refused only.

    Raises ConfigError for options, and ValueError for addresses, that cannot be used.
    """

    def __init__(
        self,
        *addresses: str,
        config: Config | None = None,
        mode: str = "hostpool",
        resend: bool = True,
        max_pending: int = 1000,
        max_pending_bytes: int = 64 * 1024 * 1024,
        max_body_size: int = BODY_BYTES_MAX,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(type(self).__name__, unknown)
        config = (config or Config()).validate()
        hosts = hosts_of(mode, checked_addresses(addresses), clock, chance or SystemChance())
        self._router = Router(hosts, resend, self._settled)
        self._nodes = {
            address: Node(address, config, clock, self._router, self._send_again)
            for address in dict.fromkeys(addresses)
        }
        self._topics = Topics()
        self._max_pending = checked_bound("max_pending", max_pending)
        self._max_pending_bytes = checked_bound("max_pending_bytes", max_pending_bytes)
        self._max_body_size = max_body_size
        self._pile = PendingPublishes()
        self._sending = False
        self._pending = 0
        self._pending_bytes = 0
        self._outside: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._errors: list[ClientError] = []
        self._stopped = False

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def connections(self) -> Mapping[str, NodeState]:
        """The nodes by address."""
        dead = {host.address for host in self._router.hosts.hosts if host.is_dead}
        return {
            address: NodeState(
                address, node.is_connected, address in dead, len(node.waiting), node.error
            )
            for address, node in self._nodes.items()
        }

    @property
    def pending(self) -> int:
        """Messages that are under way: published, and no node has said that it has them."""
        return self._pending

    # --- publishing ------------------------------------------------------------------------------

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish one message and wait until a node has it. Raises ClientError."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_full:
            await self._wait_for_room()
        self._gather(topic, body, future)
        await future

    async def publish_soon(self, topic: str, body: bytes) -> asyncio.Future[None]:
        """Publish one message without waiting for the answer, which the future will have.

        Waits while too much is under way. ``flush`` waits for all and raises the first error, so
        that futures can be dropped.
        """
        future = _Soon(self._errors)
        if self._is_full:
            await self._wait_for_room()
        self._gather(topic, body, future)
        return future

    async def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish many messages with one command, refused all or none.

        Lists of more than ``max_body_size`` bytes become several commands, each of which is
        stored, or refused, by itself; the first error is raised when all are answered.
        """
        self._topics.check(topic, "MPUB")
        checked = [checked_body(body, "MPUB") for body in bodies]
        parts = parts_of(checked, self._max_body_size)
        futures = [await self._alone(topic, part) for part in parts]
        # All are awaited before one is raised: the others may still be stored.
        for outcome in await asyncio.gather(*futures, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def deferred_publish(self, topic: str, delay: float, body: bytes) -> None:
        """Publish a message that is delivered no sooner than ``delay`` seconds from now.

        Raises ValueError for a negative or endless delay.
        """
        self._topics.check(topic, "DPUB")
        delay_ms = deferral_ms(delay)
        await (await self._alone(topic, [checked_body(body, "DPUB")], delay_ms))

    async def flush(self) -> None:
        """Wait until nothing is under way. Raises the first error of ``publish_soon`` since."""
        while self._pending:
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle:  # given up
                    self._idle.remove(waiter)
        if self._errors:
            raise self._errors.pop()

    async def ping(self) -> None:
        """See that a node can be reached; the error of the last one is raised if none can."""
        if self._stopped:
            raise Stopped
        tried: list[str] = []
        while True:
            turn = self._router.hosts.take(tried)
            tried.append(turn.address)
            try:
                await self._nodes[turn.address].ping()
            except ClientError:
                turn.failed()
                if len(tried) == len(self._nodes):
                    raise
            else:
                turn.succeeded()
                return

    async def close(self) -> None:
        """Close the connections; what is under way raises Stopped. ``flush`` before, to wait."""
        self._stopped = True
        requests = self._pile.take()
        for node in self._nodes.values():
            requests += node.stop()
        for request in requests:
            self._router.fail(request, Stopped())
        self._wake()
        for node in self._nodes.values():
            await node.close()

    # --- the way of a message --------------------------------------------------------------------

    def _gather(self, topic: str, body: bytes, future: asyncio.Future[None]) -> None:
        """Put a single message on the pile."""
        self._topics.check(topic, "PUB")
        body = checked_body(body, "PUB")
        self._enter(1, len(body))
        self._pile.add(topic, body, future)

    async def _alone(
        self, topic: str, bodies: list[bytes], delay_ms: int | None = None
    ) -> asyncio.Future[None]:
        """Put a separate command on the pile, once there is room."""
        if self._is_full:
            await self._wait_for_room()
        size = sum(map(len, bodies))
        self._enter(len(bodies), size)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pile.put(Request(topic, bodies, [future], size, delay_ms))
        return future

    def _enter(self, count: int, size: int) -> None:
        """Count what is now under way; the pile is sent at the end of this pass of the loop."""
        if self._stopped:
            raise Stopped
        self._pending += count
        self._pending_bytes += size
        if not self._sending:
            self._send_soon()

    async def _wait_for_room(self) -> None:
        while self._is_full and not self._stopped:
            waiter = asyncio.get_running_loop().create_future()
            self._outside.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._outside:  # who tries again and again would gather them
                    self._outside.remove(waiter)
                self._wake()  # somebody else may have the room
                raise

    @property
    def _is_full(self) -> bool:
        return self._pending >= self._max_pending or self._pending_bytes >= self._max_pending_bytes

    def _wake(self) -> None:
        """Let in as many as there is room for, or all when there will be none."""
        room = len(self._outside) if self._stopped else self._max_pending - self._pending
        while self._outside and room > 0:
            waiter = self._outside.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def _send_soon(self) -> None:
        self._sending = True
        asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        pile = self._pile
        # It grows until an answer comes: ``_send_again`` sends it then.
        if not pile or (pile.may_grow and self._commands_under_way >= UNANSWERED_MAX):
            return
        requests = pile.take()
        self._nodes[self._router.route(requests)].send(requests)

    @property
    def _commands_under_way(self) -> int:
        return sum(len(node.waiting) + len(node.unsent) for node in self._nodes.values())

    def _settled(self, request: Request) -> None:
        """A request has ended, well or not."""
        self._pending -= len(request.bodies)
        self._pending_bytes -= request.size
        if self._outside:
            self._wake()
        if not self._pending:
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    def _send_again(self, requests: Sequence[Request]) -> None:
        """Send these requests, each by itself, and what was gathered meanwhile."""
        for request in requests:
            self._nodes[self._router.route([request])].send([request])
        if self._pile and not self._sending:
            self._send_soon()


class _Soon(asyncio.Future[None]):
    """The outcome of a ``publish_soon``: ``flush`` has its error, so nobody need look at it."""

    def __init__(self, errors: list[ClientError]) -> None:
        super().__init__()
        self._errors = errors

    def set_exception(self, exception: type | BaseException, /) -> None:
        super().set_exception(exception)
        self.exception()  # so that asyncio does not report it as overlooked
        if not self._errors and isinstance(exception, ClientError):
            self._errors.append(exception)
