"""nsq_to_http at work: messages in, requests out, each message answered when its request ends."""

from __future__ import annotations

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.nsq.client import Consumer, Message
from penstock.nsq.client.hosts import MODES, Hosts, hosts_of
from penstock.nsq.tools import lines
from penstock.nsq.tools.errors import say
from penstock.nsq.tools.flags import check_lookupds, consumer_config
from penstock.nsq.tools.run import Stop, closed_on
from penstock.nsq.tools.timings import Timings
from penstock.nsq.tools.to_http.hops import Endpoint, header_fields
from penstock.nsq.tools.to_http.options import ToHttpFlags
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed
from penstock.nsq.version import NSQ_VERSION

USER_AGENT = f"nsq_to_http v{NSQ_VERSION}"


async def forward(flags: ToHttpFlags, stop: Stop) -> None:
    """Publish messages until asked to end."""
    config = consumer_config(flags, "nsq_to_http")
    check_lookupds(flags.lookupd_http_addresses)
    consumer = Consumer(
        flags.topic,
        flags.channel,
        nsqd_tcp_addresses=flags.nsqd_tcp_addresses,
        lookupd_http_addresses=flags.lookupd_http_addresses,
        config=config,
        required=True,
    )
    lines.count_consumer(flags.topic, flags.channel)
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
    """Publishes each message to the endpoint whose turn it is, or to all of them."""

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
        every = flags.status_every if len(addresses) > 1 else 0
        self._timings = {
            address: Timings(f"[{address}]:", every, say) for address in self._endpoints
        }
        self._all_timings = Timings("[aggregate]:", flags.status_every, say)

    async def handle(self, message: Message) -> None:
        """Publish one message, unless it is not in the sample. Raises PublishFailed."""
        if self._sample < 1.0 and self._chance.fraction() > self._sample:
            return
        started = self._clock.monotonic_ns()
        if self._hosts is None:
            for address in self._order:
                await self._publish(address, message.body, self._clock.monotonic_ns())
        else:
            await self._publish_in_turn(self._hosts, message.body, started)
        self._all_timings.add(self._clock.monotonic_ns() - started)

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
        self._timings[address].add(self._clock.monotonic_ns() - started)

    def _choice(self, flags: ToHttpFlags) -> Hosts | None:
        if flags.is_to_all:
            known = ", ".join(MODES)
            say(f"--mode={flags.mode} is none of {known}: every message goes to every address")
            return None
        # Upstream counts up before it looks, so its round robin begins with the second address.
        first = 1 if flags.mode == "round-robin" else 0
        return hosts_of(flags.mode, self._order, self._clock, self._chance, first)
