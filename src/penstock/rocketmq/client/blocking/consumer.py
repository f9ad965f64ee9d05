"""A push consumer on plain sockets: its handlers run in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeAlias

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.config import Config, config_at
from penstock.rocketmq.client.consume.allocation import Allocate, averagely
from penstock.rocketmq.client.consume.client_requests import ClientRequests
from penstock.rocketmq.client.consume.consuming import Consumption, Unit
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.views import ConsumerView

Handler: TypeAlias = Callable[[Received], object]
BatchHandler: TypeAlias = Callable[[list[Received]], object]
_TURN_NS: Final = 5 * MILLISECOND
"""The time that messages are handled for before brokers are heard, if one thread does both."""


class PushConsumer(ConsumerView):
    """A consumer of topics, as a member of a group.

        with PushConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            consumer.run(handler)       # until somebody calls consumer.stop()

    Arguments and errors are those of the asyncio consumer. ``run`` talks with the brokers in the
    thread that calls it, and has the handler called in others, so a handler may take its time. With
    ``threads=0`` the same thread calls it, which costs least: then a handler may not take longer
    than the heartbeats may be late, two minutes.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str = "",
        *,
        config: Config | None = None,
        orderly: bool = False,
        allocate: Allocate = averagely,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        self._hub: BlockingHub = BlockingHub(config_at(namesrv_addr, config), clock, chance)
        kind = ConsumerKind(is_orderly=orderly, has_retries=True, allocate=allocate)
        self._core: Consumption = Consumption(group, self._hub, kind)
        self._requests = ClientRequests(self._core)
        self._is_started = False
        self._is_stopping = False
        self._given: SimpleQueue[Unit | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Unit, BaseException | None]] = SimpleQueue()
        self._exit: BaseException | None = None

    def __enter__(self) -> PushConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Join the group; ``run`` does so as well. Raises ClientError for a refused filter."""
        if not self._is_started:
            self._hub.run(self._core.begin())
            self._is_started = True

    # --- messages --------------------------------------------------------------------------------

    def run(self, handler: Handler, threads: int | None = None) -> None:
        """Have ``handler`` called with each message, until ``stop`` is called.

        ``threads`` is their number, by default ``consume_threads``. When it returns, the message
        is done; when it raises, the message comes again later. What is not an ``Exception``, as
        ``sys.exit`` raises it, ends the run and is raised here.
        """
        self._run(lambda messages: handler(messages[0]), 1, threads)

    def run_batches(self, handler: BatchHandler, threads: int | None = None) -> None:
        """Handle lists of up to ``consume_message_batch_max_size`` messages of one queue."""
        self._run(handler, self._hub.config.consume_message_batch_max_size, threads)

    def stop(self) -> None:
        """Have ``run`` return when the messages at hand are done, or at once if it has not begun;
        any thread, and the handler of a signal, may call this.
        """
        self._is_stopping = True
        self._hub.ring()

    def _run(self, handler: BatchHandler, most: int, threads: int | None) -> None:
        self._requests.handler = handler
        self.start()
        count = self._hub.config.consume_threads if threads is None else threads
        try:
            if count:
                self._run_in_threads(handler, most, count)
            else:
                self._run_here(handler, most)
        finally:
            self._is_stopping = False
        error, self._exit = self._exit, None
        if error is not None:
            raise error

    def _run_here(self, handler: BatchHandler, most: int) -> None:
        clock = self._hub.clock.monotonic_ns
        while not self._is_stopping:
            ends = clock() + _TURN_NS
            unit = self._core.take(most)
            while unit is not None:
                self._settle(unit, _handle(handler, unit))
                goes_on = clock() < ends and not self._is_stopping
                unit = self._core.take(most) if goes_on else None
            self._hub.work(None if clock() < ends and not self._is_stopping else 0)

    def _run_in_threads(self, handler: BatchHandler, most: int, count: int) -> None:
        for _ in range(count):
            Thread(
                target=self._serve, args=(handler,), daemon=True, name="rocketmq handler"
            ).start()
        try:
            while not self._is_stopping:
                while self._core.working < count and (unit := self._core.take(most)) is not None:
                    self._given.put(unit)
                self._hub.work(None)
                self._settle_all()
        finally:
            self._finish(self._hub.config.await_termination)
            for _ in range(count):
                self._given.put(None)

    def _serve(self, handler: BatchHandler) -> None:
        """One of the threads."""
        while (unit := self._given.get()) is not None:
            self._ended.put((unit, _handle(handler, unit)))
            self._hub.ring()

    def _settle_all(self) -> None:
        while not self._ended.empty():
            self._settle(*self._ended.get())

    def _settle(self, unit: Unit, error: BaseException | None) -> None:
        if error is None:
            self._core.finished(unit)
        else:
            self._core.failed(unit, error)
        if error is not None and not isinstance(error, Exception):
            self._exit = error
            self._is_stopping = True

    def _finish(self, seconds: float) -> None:
        """Wait for the messages at hand, but no longer."""
        clock = self._hub.clock.monotonic_ns
        end = clock() + int(seconds * SECOND)
        self._settle_all()
        while self._core.working and (left := end - clock()) > 0:
            self._hub.work(left / SECOND)
            self._settle_all()

    def close(self) -> None:
        """Pull no more, commit, and leave the group."""
        if self._hub.is_closed:
            return
        self._core.stop()
        if self._is_started:
            with contextlib.suppress(ClientError):
                self._hub.run(self._core.leave())
        self._hub.close()


def _handle(handler: BatchHandler, unit: Unit) -> BaseException | None:
    try:
        handler(unit.messages)
    except BaseException as error:  # in a thread of ours nobody else would hear of it
        return error
    return None
