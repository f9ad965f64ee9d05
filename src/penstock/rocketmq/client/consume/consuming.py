"""Messages on their way to handlers and back: the core of both push consumers.

A shell takes units of work and says what became of each. A message that was handled in vain comes
again through the group's retry topic, ever later, and is a dead letter in the end. In order, it
stays where it is, and its queue waits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.rocketmq.client.consume.group import ConsumerKind, Group
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.consume.send_back import SendBack
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.produce.publishing import Publisher, tracer

_AGAIN_S: Final = 5.0
"""A message that could not be sent back is handled again after this time."""
_EXPIRED_LEVEL: Final = 3
"""The delay of a message that was handled for too long."""


class RetryLater(PenstockError):
    """Raised by a handler: have this again after the time of ``delay_level``, without a traceback
    in the log. 0 leaves the level to the broker, -1 makes it a dead letter at once.
    """

    def __init__(self, delay_level: int = 0) -> None:
        self.delay_level = delay_level
        super().__init__(f"again later, delay level {delay_level}")


class Unit:
    """Messages of one queue that are handled together."""

    __slots__ = ("held", "is_expired", "messages", "started", "trace_id")

    def __init__(self, held_queue: HeldQueue, messages: list[Received], started: int) -> None:
        self.held = held_queue
        self.messages = messages
        self.started = started
        self.is_expired = False
        self.trace_id = ""


class Consumption(Group):
    """A group whose messages are handed out."""

    def __init__(self, group: str, hub: Hub, kind: ConsumerKind) -> None:
        super().__init__(group, hub, kind)
        self.on_arrival: Callable[[int], object] = _nobody
        """Told the least number of units that can be taken more."""
        self._ready: deque[tuple[HeldQueue, deque[Received]]] = deque()
        self._turns: deque[HeldQueue] = deque()
        self._waiting_turns: set[HeldQueue] = set()
        self._working: dict[Unit, None] = {}
        self._inner = Publisher("CLIENT_INNER_PRODUCER", hub, traces=False)
        self._back = SendBack(hub, self.name, self._inner)
        self._tracer = tracer(hub) if hub.config.enable_msg_trace else None

    async def begin(self) -> None:
        await super().begin()
        if self.kind.has_retries and not self.kind.is_orderly:
            self.hub.spawn(self._expire_for_ever(), "consume time-outs")

    @property
    def working(self) -> int:
        """Units that are being handled."""
        return len(self._working)

    # --- what comes ------------------------------------------------------------------------------

    def arrived(self, held_queue: HeldQueue, messages: list[Received]) -> None:
        if self.kind.is_orderly:
            self._queue_up(held_queue)
        else:
            self._ready.append((held_queue, deque(messages)))
            self.on_arrival(len(messages))

    def _queue_up(self, held_queue: HeldQueue) -> None:
        """Queue up a queue in order that has something to handle and is not being handled."""
        if (
            not held_queue.is_busy
            and not held_queue.is_dropped
            and held_queue not in self._waiting_turns
        ):
            self._waiting_turns.add(held_queue)
            self._turns.append(held_queue)
            self.on_arrival(1)

    def forgotten(self, held_queue: HeldQueue) -> None:
        if self._ready:
            self._ready = deque(each for each in self._ready if each[0] is not held_queue)

    # --- what is taken ---------------------------------------------------------------------------

    def take(self, most: int) -> Unit | None:
        """Take up to ``most`` messages of one queue, if there are any."""
        unit = self._take_in_order(most) if self.kind.is_orderly else self._take_any(most)
        if unit is not None:
            self._working[unit] = None
            if self._tracer is not None:
                unit.trace_id = f"{unit.messages[0].id}{unit.started & 0xFFFF:04X}"
                for message in unit.messages:
                    self._tracer.before(self.name, message, unit.trace_id)
        return unit

    def _take_any(self, most: int) -> Unit | None:
        if not self._ready:
            return None
        held_queue, messages = self._ready[0]
        if len(messages) <= most:
            self._ready.popleft()
            taken = list(messages)
        else:
            taken = [messages.popleft() for _ in range(most)]
        return Unit(held_queue, taken, self.hub.clock.monotonic_ns())

    def _take_in_order(self, most: int) -> Unit | None:
        now = self.hub.clock.monotonic_ns()
        while self._turns:
            held_queue = self._turns.popleft()
            self._waiting_turns.discard(held_queue)
            # It was queued up a while ago, and all of that may have changed.
            if held_queue.is_dropped or held_queue.is_busy or not held_queue.count:
                continue
            # RocketMQ spec 4.8: a lock counts for 30 s, and the broker gives it away after 60.
            if self.is_locking and not held_queue.is_locked(now):
                self._lock_lost(held_queue)
                continue
            # One unit at a time: in order, the next waits for the end of this one.
            held_queue.is_busy = True
            return Unit(held_queue, held_queue.first(most), now)
        return None

    # --- what became of it -----------------------------------------------------------------------

    def dismiss(self, unit: Unit) -> None:
        """Forget messages that were taken: nothing is to become of them."""
        self._working.pop(unit, None)

    def give_back(self, unit: Unit) -> None:
        """Hand out again what was taken: whoever handled it was stopped in the middle."""
        self.dismiss(unit)
        held_queue = unit.held
        # A seek or a time-out may have taken some of them elsewhere.
        left = deque(message for message in unit.messages if held_queue.holds(message))
        if self.kind.is_orderly:
            self._next_turn(unit)
        elif left and not held_queue.is_dropped and not unit.is_expired:
            self._ready.appendleft((held_queue, left))
            self.on_arrival(len(left))

    def finished(self, unit: Unit) -> None:
        """Note that messages were handled."""
        if self._ended(unit, succeeded=True):
            unit.held.done(unit.messages)
            self._next_turn(unit)

    def failed(self, unit: Unit, error: BaseException) -> None:
        """Note that the handler of messages has raised an error."""
        if not isinstance(error, RetryLater):
            self._tell(
                logging.WARNING,
                "handler-failed",
                f"consumeMessage exception: {error!r} Msgs: {unit.messages}",
                trace=error,
                topic=unit.messages[0].topic,
                queue=unit.held.queue,
            )
        # Its time-out has sent it back already: twice would be two messages.
        if not self._ended(unit, succeeded=False):
            return
        # RocketMQ spec 4.5: 0 leaves the delay to the broker, by how often it was tried.
        level = error.delay_level if isinstance(error, RetryLater) else 0
        if self.kind.is_orderly:
            self.hub.spawn(self._wait_in_order(unit, level), "suspended queue")
        elif self.is_broadcast:
            self._tell(
                logging.WARNING,
                "handler-failed",
                f"BROADCASTING, the message consume failed, drop it, {unit.messages}",
            )
            # RocketMQ spec 4.12: there is no sending back, as each member has its own copy.
            unit.held.done(unit.messages)
        else:
            self._send_all_back(unit, level)

    def _send_all_back(self, unit: Unit, level: int) -> None:
        """Send back what still belongs to this member: the rest goes to the queue's new owner, or
        was skipped by a seek.
        """
        held_queue = unit.held
        for message in unit.messages:
            if held_queue.holds(message) and not held_queue.is_dropped:
                self.hub.spawn(self._send_back(held_queue, message, level), "send back")

    def _ended(self, unit: Unit, *, succeeded: bool) -> bool:
        self._working.pop(unit, None)
        took_ns = self.hub.clock.monotonic_ns() - unit.started
        topic, count = unit.held.queue.topic, len(unit.messages)
        self.rates.handled(topic, took_ns, count, succeeded=succeeded)
        if self._tracer is not None:
            took = took_ns / SECOND
            for message in unit.messages:
                self._tracer.after(self.name, message, unit.trace_id, took, succeeded=succeeded)
        # Its messages are on their way to somebody else: what the late handler did changes nothing
        # here.
        return not unit.is_expired

    def _next_turn(self, unit: Unit) -> None:
        held_queue = unit.held
        if self.kind.is_orderly:
            held_queue.rest()
            if held_queue.count:
                self._queue_up(held_queue)

    async def _send_back(self, held_queue: HeldQueue, message: Received, level: int) -> None:
        try:
            await self._back.send(message, level)
        except ClientError as error:
            self._tell(
                logging.ERROR,
                "send-back-failed",
                f"sendMessageBack exception, {message}: {error}; it is handled again",
            )
            # As the broker would have counted it, so that it does not come back for ever.
            message.reconsume_times += 1
            await self.hub.sleep(_AGAIN_S)
            if held_queue.holds(message) and not held_queue.is_dropped:
                self._ready.append((held_queue, deque([message])))
                self.on_arrival(1)
        else:
            held_queue.done([message])

    async def _wait_in_order(self, unit: Unit, level: int) -> None:
        """The queue waits with these, or goes on without those that have waited for too long."""
        for message in unit.messages:
            if self._is_spent(message, level):
                await self._send_aside(unit.held, message, level)
            message.reconsume_times += 1
        if unit.held.is_dropped or self._is_leaving:
            # Whoever waits for the queue to be idle, to give it up, waits no longer.
            unit.held.rest()
            return
        await self.hub.sleep(self.hub.config.suspend_current_queue_time)
        self._next_turn(unit)

    def _is_spent(self, message: Received, level: int) -> bool:
        most = self.hub.config.max_reconsume_times
        return not self.is_broadcast and (level < 0 or 0 <= most <= message.reconsume_times)

    async def _send_aside(self, held_queue: HeldQueue, message: Received, level: int) -> None:
        """Let the queue go on without it; while no broker takes it, the queue waits."""
        try:
            await (self._back.send(message, level) if level < 0 else self._back.send_aside(message))
        except ClientError as error:
            self._tell(
                logging.ERROR, "send-back-failed", f"sendMessageBack exception, {message}: {error}"
            )
        else:
            held_queue.done([message])

    async def _expire_for_ever(self) -> None:
        timeout = self.hub.config.consume_timeout
        while True:
            # So a handler that hangs is noticed after one to one and a half time-outs.
            await self.hub.sleep(timeout / 2)
            late = self.hub.clock.monotonic_ns() - int(timeout * SECOND)
            for unit in [each for each in self._working if each.started <= late]:
                self._expire(unit)

    def _expire(self, unit: Unit) -> None:
        """Let somebody else try a message whose handler may hang for ever."""
        # Broadcasting has no sending back (RocketMQ spec 4.12).
        if unit.is_expired or self.is_broadcast:
            return
        unit.is_expired = True
        self._tell(
            logging.WARNING,
            "consume-timeout",
            f"send expire msg back, {unit.messages}",
            queue=unit.held.queue,
        )
        self._send_all_back(unit, _EXPIRED_LEVEL)

    # --- its end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        super().stop()
        self._ready.clear()
        self._turns.clear()
        self._waiting_turns.clear()

    async def leave(self) -> None:
        worked_on = {unit.held for unit in self._working}
        for held_queue in self.held.values():
            # What waits out a failure in order is not being handled, and leaving need not wait for
            # it.
            if held_queue not in worked_on:
                held_queue.rest()
        await super().leave()
        if self._tracer is not None:
            await self._tracer.flush()


def _nobody(_: int) -> Any:
    """Nobody waits for messages."""
