"""The nsqds that messages go to: which is next, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.chance import Chance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.nsq.client import Config, Producer
from penstock.nsq.client.errors import BadBody, BadMessage, ClientError, ServerError
from penstock.nsq.client.hosts import Turn
from penstock.nsq.tools import lines
from penstock.nsq.tools.forwarding import EPSILON_GREEDY, Report, upstream_hosts


class Destinations:
    """The addresses: a message goes to one of them, and their times are logged now and then."""

    def __init__(
        self,
        addresses: Sequence[str],
        config: Config,
        *,
        mode: str,
        status_every: int,
        max_pending: int,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
    ) -> None:
        """``max_pending`` messages may be under way to each address."""
        self._hosts = upstream_hosts(mode, addresses, clock, chance)
        self._clock = clock
        self._producers: dict[str, Producer] = {}
        for address in dict.fromkeys(addresses):
            self._producers[address] = Producer(address, config=config, max_pending=max_pending)
            lines.count_producer(address)
        self._report = Report(addresses, status_every)
        # The quickest host is to get the most, so there a delivery stays together.
        self.shares = 1 if mode == EPSILON_GREEDY else len(self._producers)
        """Into how many runs to divide what came together, so that all destinations work."""

    async def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish all of them to the address whose turn it is. Raises ClientError.

        With BadMessage or BadBody none of them was taken, and at least one of them never will be;
        that is not a fault of the destination's.
        """
        turn = self._hosts.take()
        started = self._clock.monotonic_ns()
        producer = self._producers[turn.address]
        try:
            if len(bodies) == 1:
                await producer.publish(topic, bodies[0])
            else:
                await producer.multi_publish(topic, bodies)
        except (BadMessage, BadBody):
            turn.succeeded()
            if len(bodies) == 1:
                self._took(turn, started, 1)
            raise
        except ClientError as error:
            turn.failed()
            if isinstance(error, ServerError):
                self._took(turn, started, len(bodies))
            raise
        turn.succeeded()
        self._took(turn, started, len(bodies))

    async def close(self) -> None:
        """Close the connections; what is under way fails."""
        for producer in self._producers.values():
            await producer.close()

    def _took(self, turn: Turn, started: int, count: int) -> None:
        """Record a duration; as upstream, every answered message counts, refusals as well."""
        duration = self._clock.monotonic_ns() - started
        self._report.of[turn.address].add(duration, count)
        self._report.all.add(duration, count)
