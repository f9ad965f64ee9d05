"""All that a client does with the network, without touching it: connections by address, requests,
timers and jobs.

A shell gives it what it lacks, the methods under "What a shell does". It hands in bytes and calls
``tick`` when ``deadline`` has come; whatever else happens follows from that.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.address import join_host_port, split_host_port
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import ClientError, NotConnected, Stopped, refusal
from penstock.rocketmq.client.events import LOGGER, tell
from penstock.rocketmq.client.identity import client_id
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.network.name_servers import NameServers
from penstock.rocketmq.client.network.routes import Routes
from penstock.rocketmq.client.network.timers import Timer, Timers
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import VIP_DISTANCE

T = TypeVar("T")
Server = Callable[[Wire, Command], Command | None]
"""A function that serves requests of brokers; it gives the answer, or None for no answer."""


class Hub:
    """Everything about a client that producers and consumers have in common."""

    def __init__(
        self, config: Config, clock: Clock = SYSTEM_CLOCK, chance: Chance | None = None
    ) -> None:
        """Check the configuration. Raises ConfigError."""
        self.config = config.validate()
        self.clock = clock
        self.chance = chance or SystemChance()
        self.client_id = client_id(config, clock)
        self.timers = Timers()
        self.serves: dict[int, Server] = {}
        """The answerers of brokers' requests, by code."""
        self.on_lost: list[Callable[[str], object]] = []
        """Told the address of each connection that is lost."""
        self.is_closed = False
        self._wires: dict[str, Wire] = {}
        self._jobs: dict[Job[Any], None] = {}
        addresses = config.namesrv_addr
        if not addresses and not config.namesrv_url:
            addresses = os.environ.get("NAMESRV_ADDR", "")
        self.name_servers = NameServers(self, addresses, config.namesrv_url)
        self.routes = Routes(self, self.name_servers)
        self._begun = False

    # --- what a shell does -----------------------------------------------------------------------

    def connect(self, wire: Wire) -> None:
        """Begin to connect; ``wire.opened`` or ``lose`` tell how that ends."""
        raise NotImplementedError

    def flush(self, wire: Wire) -> None:
        """See that ``wire.take_output`` is sent, soon."""
        raise NotImplementedError

    def disconnect(self, wire: Wire) -> None:
        """Close the connection, after what was said."""
        raise NotImplementedError

    def rescheduled(self) -> None:
        """``deadline`` may be earlier than it was."""
        raise NotImplementedError

    def call(self, function: Callable[..., Any], *arguments: Any) -> Promise[Any]:
        """Call a function of the user's; the promise is what it gives in the end."""
        raise NotImplementedError

    def fetch(self, url: str) -> Promise[bytes]:
        """The page at a URL. It fails with ClientError."""
        raise NotImplementedError

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def connections(self) -> dict[str, Wire]:
        """The connections at present, and those on their way, by address."""
        return dict(self._wires)

    # --- requests --------------------------------------------------------------------------------

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        seconds: float | None = None,
    ) -> Command:
        """The answer to a request, whatever its code. Raises NotConnected, TimedOut, Stopped."""
        return await self.asked(address, Command(code, 0, fields, body), seconds)

    def asked(
        self, address: str, request: Command, seconds: float | None = None
    ) -> Promise[Command]:
        """A request that is under way."""
        if self.is_closed:
            raise Stopped
        wire = self._wires.get(address) or self._connect(address)
        # A shell may have to move a timer of its loop, so it hears only of a change.
        before = wire.deadline
        promise = wire.ask(request, self.config.request_timeout if seconds is None else seconds)
        if wire.deadline != before:
            self.rescheduled()
        return promise

    async def demand(
        self,
        address: str,
        code: RequestCode,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
        subject: str = "",
    ) -> Command:
        """The answer of a server that has carried out a request. Raises BrokerError as well."""
        answer = await self.ask(address, code, fields, body, seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(address, answer.code, answer.remark, subject)
        return answer

    def tell(
        self, address: str, code: RequestCode, fields: dict[str, str], body: bytes = b""
    ) -> None:
        """Send a request to which there is no answer."""
        if not self.is_closed:
            wire = self._wires.get(address) or self._connect(address)
            wire.tell(Command(code, 0, fields, body))

    def vip(self, address: str) -> str:
        """The address to send to for this broker."""
        if not self.config.vip_channel_enabled:
            return address
        host, port = split_host_port(address)
        # RocketMQ spec 6, ports: there brokers serve sends, but no pulls.
        return join_host_port(host, port - VIP_DISTANCE)

    def _connect(self, address: str) -> Wire:
        wire = Wire(address, self.config, self.clock, self.flush, self._serve)
        self._wires[address] = wire
        tell(logging.DEBUG, "connecting", "createChannel: begin to connect", address=address)
        self.connect(wire)
        return wire

    def _serve(self, wire: Wire, request: Command) -> None:
        serve = self.serves.get(request.code)
        try:
            answer = request.unsupported() if serve is None else serve(wire, request)
        except BodyError as error:
            answer = request.answer(ResponseCode.SYSTEM_ERROR, str(error))
        if answer is not None and not request.is_one_way:
            wire.answer(answer)

    # --- what shells tell ------------------------------------------------------------------------

    def opened(self, wire: Wire, tls: str = "") -> None:
        """Note a connection."""
        tell(logging.INFO, "connected", "connected", address=wire.address)
        wire.opened(tls)

    def lose(self, wire: Wire, error: ClientError) -> None:
        """Take note that a connection failed, or has ended."""
        if wire.is_lost:
            return
        event = "disconnected" if wire.is_open else "connect-failed"
        level = logging.INFO if self.is_closed or wire.is_open else logging.WARNING
        reason = error.reason if isinstance(error, NotConnected) else str(error)
        tell(level, event, reason, address=wire.address)
        # A new connection to the address may be there already; that one stays.
        if self._wires.get(wire.address) is wire:
            del self._wires[wire.address]
        if not isinstance(error, NotConnected):
            # Whatever it was, those who wait may try another broker: that is what NotConnected
            # says.
            error = NotConnected(wire.address, str(error), "")
        wire.lost(error)
        for told in self.on_lost:
            told(wire.address)

    @property
    def deadline(self) -> int | None:
        """The time for the next ``tick``; nanoseconds of the monotonic clock."""
        due = [wire.deadline for wire in self._wires.values() if wire.deadline is not None]
        if (timer := self.timers.next) is not None:
            due.append(timer)
        return min(due, default=None)

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock.monotonic_ns()
        for wire in list(self._wires.values()):
            if wire.deadline is not None and wire.deadline <= now:
                self._expire(wire, now)
        self.timers.run(now)

    def _expire(self, wire: Wire, now: int) -> None:
        """Fail what is late, and give up a connection that is silent, as Java's client does: the
        system would try for a quarter of an hour.
        """
        is_silent = wire.is_silent(now)
        if is_silent:
            del self._wires[wire.address]  # what is asked from now on has another one
        wire.expire(now)
        if is_silent:
            self.lose(wire, NotConnected(wire.address, "no answer to anything, given up"))

    # --- time and jobs ---------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time as messages have it."""
        return self.clock.wall_ns() // MILLISECOND

    def later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call this after the seconds."""
        timer = self.timers.at(self.clock.monotonic_ns() + int(seconds * SECOND), call)
        self.rescheduled()
        return timer

    def sleep(self, seconds: float) -> Promise[None]:
        """A promise that is kept after the seconds."""
        promise = Promise[None]()
        self.later(seconds, lambda: promise.keep(None))
        return promise

    def begin(self) -> None:
        """Start what runs in the background; doing so again changes nothing."""
        if not self._begun:
            self._begun = True
            self.spawn(self.name_servers.watch(), "name servers")
            self.spawn(self.routes.watch(), "routes")

    def spawn(self, coroutine: Coroutine[Any, None, T], name: str) -> Job[T]:
        """Run a job of the core; a failure nobody expects is logged."""
        job = Job(coroutine)
        if not job.is_done:
            self._jobs[job] = None
        job.then(lambda _: self._ended(job, name))
        return job

    def _ended(self, job: Job[Any], name: str) -> None:
        self._jobs.pop(job, None)
        error = job.error
        if error is not None and not isinstance(error, ClientError):
            LOGGER.error("%s failed", name, exc_info=error)

    def close(self) -> None:
        """End all jobs and connections; what waits fails with Stopped."""
        if self.is_closed:
            return
        self.is_closed = True
        for job in list(self._jobs):
            job.cancel(Stopped())
        self._jobs.clear()
        self.timers.clear()
        for wire in list(self._wires.values()):
            self.disconnect(wire)
        for wire in list(self._wires.values()):
            # After disconnect, which sends what was said: this drops what is left.
            wire.lost(Stopped())
        self._wires.clear()
