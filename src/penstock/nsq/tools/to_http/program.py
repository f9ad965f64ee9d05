"""nsq_to_http at work: messages in, requests out, each message answered when its request ends."""

from __future__ import annotations

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import SECOND
from penstock.nsq.client import Message
from penstock.nsq.client.hosts import MODES, Hosts
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import say
from penstock.nsq.tools.flags import consumer_config
from penstock.nsq.tools.forwarding import Report, upstream_hosts
from penstock.nsq.tools.lifecycle import Stop, closed_on
from penstock.nsq.tools.to_http.command_line import ToHttpFlags
from penstock.nsq.tools.to_http.hops import Endpoint, header_fields
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed

USER_AGENT = f"nsq_to_http v{NSQ_VERSION}"


async def forward(flags: ToHttpFlags, stop: Stop) -> None:
    """Publish messages until asked to end."""
    config = consumer_config(flags, "nsq_to_http")
    consumer = new_consumer(flags, flags.topic, flags.channel, config)
    publisher = Publisher(
        connect_timeout=flags.connect_timeout / SECOND if flags.connect_timeout else None,
        request_timeout=flags.request_timeout / SECOND if flags.request_timeout > 0 else None,
        kept=flags.publishers,
    )
    forwarder = Forwarder(flags, publisher)
    try:
        async with consumer, closed_on(stop, consumer):
            await consumer.run(forwarder.handle, concurrency=flags.publishers)
    finally:
        await publisher.close()


class Forwarder:
    """A forwarder of each message to the endpoint whose turn it is, or to all of them."""

    def __init__(
        self,
        flags: ToHttpFlags,
        publisher: Publisher,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        addresses = flags.posts or flags.gets
        content_type = flags.content_type if flags.posts else ""
        fields = header_fields(USER_AGENT, content_type, flags.headers)
        method = "POST" if flags.posts else "GET"
        self._endpoints = {address: Endpoint(method, address, fields) for address in addresses}
        self._order = addresses
        self._sample = flags.sample
        self._publisher = publisher
        self._clock = clock
        self._chance = chance or SystemChance()
        self._hosts = self._choice(flags)
        self._report = Report(addresses, flags.status_every)

    async def handle(self, message: Message) -> None:
        """Publish one message, unless it is not in the sample. Raises PublishFailed."""
        # What is left out is finished, not delivered to somebody else (NSQ spec 6.5).
        if self._sample < 1.0 and self._chance.fraction() > self._sample:
            return
        started = self._clock.monotonic_ns()
        if self._hosts is None:
            for address in self._order:
                await self._publish(address, message.body, self._clock.monotonic_ns())
        else:
            await self._publish_in_turn(self._hosts, message.body, started)
        self._report.all.add(self._clock.monotonic_ns() - started)

    async def _publish_in_turn(self, hosts: Hosts, body: bytes, started: int) -> None:
        turn = hosts.take()
        try:
            await self._publish(turn.address, body, started)
        except PublishFailed:
            turn.failed()
            raise
        turn.succeeded()

    async def _publish(self, address: str, body: bytes, started: int) -> None:
        await self._publisher.publish(self._endpoints[address], body)
        self._report.of[address].add(self._clock.monotonic_ns() - started)

    def _choice(self, flags: ToHttpFlags) -> Hosts | None:
        if flags.is_to_all:
            known = ", ".join(MODES)
            say(f"--mode={flags.mode} is not one of {known}: every message goes to every address")
            return None
        return upstream_hosts(flags.mode, self._order, self._clock, self._chance)
