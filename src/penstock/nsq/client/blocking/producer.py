"""A producer on plain sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Never

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.nsq.client.blocking import forks
from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config, refuse_unknown
from penstock.nsq.client.delays import deferral_ms
from penstock.nsq.client.errors import ClientError, NotConnected, Stopped, server_error
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
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, Response

GATHERED_MAX: Final = 200
"""The number of messages of ``publish_soon`` that are gathered before they are sent."""

FAILURES_MAX: Final = 100
"""The number of failures kept for ``flush``, which raises the first."""


class Outcome:
    """The outcome of a publish: not known yet, done, or an error."""

    __slots__ = ("_done", "_error", "_owner")

    def __init__(self, owner: Producer) -> None:
        self._owner = owner
        self._done = False
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: None, /) -> None:
        self._done = True

    def set_exception(self, exception: BaseException, /) -> None:
        self._done, self._error = True, exception
        if len(self._owner.failures) < FAILURES_MAX:
            self._owner.failures.append(exception)

    def result(self) -> None:
        """Wait for the answer. Raises ClientError."""
        self._owner.settle(self)
        if self._error is not None:
            raise self._error


class _Node:
    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.waiting: deque[Request] = deque()


class Producer:
    """A producer for one node, or for several that stand in for each other.

    As asyncio's: lazy connections, ``mode`` and ``resend`` have the same meaning, and so have the
    errors. Nothing happens in the background: what ``publish_soon`` takes is sent when 200 messages
    are together, or by the next call of any other method; ``flush`` makes sure of it. Not for use
    by several threads at once. A forked process may go on with it, over new connections; what
    was under way is left to the parent.
    """

    def __init__(
        self,
        *addresses: str,
        config: Config | None = None,
        mode: str = "hostpool",
        resend: bool = True,
        max_pending: int = 1000,
        max_body_size: int = BODY_BYTES_MAX,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(type(self).__name__, unknown)
        # Nobody would answer heartbeats between two publishes.
        self._config = replace((config or Config()).validate(), heartbeat_interval=-1)
        hosts = hosts_of(mode, checked_addresses(addresses), clock, chance or SystemChance())
        self._router = Router(hosts, resend, self._settled)
        self._nodes = {address: _Node(address) for address in dict.fromkeys(addresses)}
        self._topics = Topics()
        self._max_pending = checked_bound("max_pending", max_pending)
        self._max_body_size = max_body_size
        self._pile = PendingPublishes()
        self._gathered = 0
        self._pending = 0
        self._stopped = False
        self.failures: list[BaseException] = []
        """The errors since the last ``flush``."""
        forks.watch(self)

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
        """Messages that are under way: published, and no node has said that it has them."""
        return self._pending

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, topic: str, body: bytes) -> None:
        """Publish one message and wait until a node has it. Raises ClientError."""
        self._topics.check(topic, "PUB")
        self._finish([self._put(topic, [checked_body(body, "PUB")])])

    def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish many messages with one command, refused all or none.

        Lists of more than ``max_body_size`` bytes become several commands, each of which is
        stored, or refused, by itself; the first error is raised when all are answered.
        """
        self._topics.check(topic, "MPUB")
        checked = [checked_body(body, "MPUB") for body in bodies]
        self._finish([self._put(topic, part) for part in parts_of(checked, self._max_body_size)])

    def deferred_publish(self, topic: str, delay: float, body: bytes) -> None:
        """Publish a message that is delivered no sooner than ``delay`` seconds from now.

        Raises ValueError for a negative or endless delay.
        """
        self._topics.check(topic, "DPUB")
        self._finish([self._put(topic, [checked_body(body, "DPUB")], deferral_ms(delay))])

    def publish_soon(self, topic: str, body: bytes) -> Outcome:
        """Publish one message without waiting for the answer, which the outcome will have."""
        self._topics.check(topic, "PUB")
        outcome = Outcome(self)
        body = checked_body(body, "PUB")
        self._admit(1)
        self._pile.add(topic, body, outcome)
        self._gathered += 1
        if self._gathered >= GATHERED_MAX or not self._pile.may_grow:
            self._send_pile()
        return outcome

    def flush(self) -> None:
        """Wait until nothing is under way. Raises the first error of ``publish_soon`` since."""
        self._drain(0)
        failures, self.failures = self.failures, []
        if failures:
            raise failures[0]

    def ping(self) -> None:
        """See that a node can be reached; the error of the last one is raised if none can."""
        tried: list[str] = []
        while True:
            turn = self._router.hosts.take(tried)
            tried.append(turn.address)
            try:
                self._connected(self._nodes[turn.address]).send(encode.NOP)
            except ClientError:
                turn.failed()
                if len(tried) == len(self._nodes):
                    raise
            else:
                turn.succeeded()
                return

    def close(self) -> None:
        """Close the connections; what is under way fails. ``flush`` before, to wait."""
        self._stopped = True
        self._give_up(Stopped())

    def leave_to_parent(self) -> None:
        """Start from nothing in a forked process: the parent sends what was published before."""
        self._give_up(ClientError("published before the process was forked, which has the answer"))
        self._gathered = 0
        self.failures.clear()

    def _give_up(self, error: ClientError) -> None:
        """Close the connections; what is under way fails."""
        requests = self._pile.take()
        for node in self._nodes.values():
            requests += self._disconnect(node)
        for request in requests:
            self._router.fail(request, error)

    def settle(self, outcome: Outcome) -> None:
        """Wait for one answer."""
        self._send_pile()
        while not outcome.done():
            self._receive_one()

    # --- the way of a message --------------------------------------------------------------------

    def _put(self, topic: str, bodies: list[bytes], delay_ms: int | None = None) -> Outcome:
        self._admit(len(bodies))
        outcome = Outcome(self)
        self._pile.put(Request(topic, bodies, [outcome], sum(map(len, bodies)), delay_ms))
        return outcome

    def _finish(self, outcomes: Sequence[Outcome]) -> None:
        """Wait for these, and raise the first error."""
        error: BaseException | None = None
        for outcome in outcomes:
            try:
                outcome.result()
            except ClientError as failure:
                # It is raised here, so ``flush`` must not raise it once more.
                if failure in self.failures:
                    self.failures.remove(failure)
                error = error or failure
        if error is not None:
            raise error

    def _admit(self, count: int) -> None:
        if self._stopped:
            raise Stopped
        # Room for one is enough: an MPUB of more than ``max_pending`` would never find its own.
        self._drain(self._max_pending - 1)
        self._pending += count

    def _drain(self, most: int) -> None:
        """Wait until no more than ``most`` messages are under way."""
        if self._pending > most:
            self._send_pile()
            while self._pending > most:
                self._receive_one()

    def _send_pile(self) -> None:
        self._gathered = 0
        if self._pile:
            self._send(self._pile.take())

    def _send(self, requests: Sequence[Request]) -> None:
        node = self._nodes[self._router.route(requests)]
        try:
            connection = self._connected(node)
        except ClientError as error:
            self._send_again(self._router.lost(requests, error, was_sent=False))
            return
        except BaseException:  # of a signal's handler, say
            self._put_back(requests)
            raise
        node.waiting += requests
        try:
            connection.send(b"".join([request.command() for request in requests]))
        except NotConnected as error:
            self._lost(node, error)

    def _send_again(self, requests: Sequence[Request]) -> None:
        left = deque(requests)
        try:
            while left:
                # One by one: they were tried at different nodes, so the next may differ, too.
                self._send([left.popleft()])
        finally:
            self._put_back(left)

    def _put_back(self, requests: Iterable[Request]) -> None:
        """Leave what was not sent to the next call."""
        for request in requests:
            self._pile.put(request)

    def _receive_one(self) -> None:
        """Wait for the next answer, of the node that has waited longest."""
        node = next(node for node in self._nodes.values() if node.waiting)
        assert node.connection is not None
        try:
            self._answered(node, node.connection.receive())
        except NotConnected as error:
            self._lost(node, error)

    def _answered(self, node: _Node, frame: Frame) -> None:
        if frame == Response(b"OK"):
            self._router.succeeded(node.waiting.popleft())
        elif isinstance(frame, Error):
            request = node.waiting.popleft()
            # A refusal ends the connection, and with it what was sent behind.
            behind = self._disconnect(node) if frame.is_fatal else []
            refusal = server_error(frame.text)
            again = self._router.refused(request, refusal)
            self._send_again([*again, *self._router.behind(behind, refusal)])
        else:
            error = ClientError(f"{node.address}: unexpected answer to a publish: {frame!r}")
            self._router.fail(node.waiting.popleft(), error)
            self._lost(node, error)

    def _lost(self, node: _Node, error: ClientError) -> None:
        self._send_again(self._router.lost(self._disconnect(node), error, was_sent=True))

    def _disconnect(self, node: _Node) -> list[Request]:
        """Close the connection; what was sent over it and not answered."""
        if node.connection is not None:
            node.connection.close()
            node.connection = None
        sent = list(node.waiting)
        node.waiting.clear()
        return sent

    def _connected(self, node: _Node) -> Connection:
        if self._stopped:
            raise Stopped
        if node.connection is not None and not node.waiting and not _is_alive(node.connection):
            self._disconnect(node)
        if node.connection is None:
            node.connection = Connection(node.address, self._config)
        return node.connection

    def _settled(self, request: Request) -> None:
        self._pending -= len(request.bodies)


def _is_alive(connection: Connection) -> bool:
    """True if it can still be used; a node sends a silent producer only the news that it closes."""
    try:
        return not connection.receive_ready() and connection.is_open
    except NotConnected:
        return False
