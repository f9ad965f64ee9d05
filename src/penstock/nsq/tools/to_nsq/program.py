"""to_nsq: publishes what comes on stdin, record by record, to every nsqd (NSQ spec 6.7)."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigError
from penstock.core.names import is_valid_name
from penstock.core.settings.options import option
from penstock.nsq.client.errors import BadBody, BadMessage
from penstock.nsq.tools import lines
from penstock.nsq.tools.errors import ToolError, say
from penstock.nsq.tools.flags import (
    ClientPair,
    ToolFlags,
    check_nsqds,
    client_options,
    parse,
    producer_config,
)
from penstock.nsq.tools.lifecycle import GRACE_S, Stop, run_tool, until
from penstock.nsq.tools.to_nsq.records import records

if TYPE_CHECKING:
    from penstock.nsq.client import Config

UNDER_WAY_MAX: Final = 8
"""Portions that are sent and not answered."""
_RECORDS_MAX: Final = 1 << 24  # what is under way is bounded by portions, not by records


class ToNsqFlags(ToolFlags):
    """The command line of to_nsq."""

    topic: str = option("", "NSQ topic to publish to")
    delimiter: str = option("\n", "character to split input from stdin")
    nsqds: tuple[str, ...] = option(
        (), "destination nsqd TCP address (may be given multiple times)", flag="nsqd-tcp-address"
    )
    rate: int = option(0, "Throttle messages to n/second. 0 to disable")
    producer_options: tuple[ClientPair, ...] = client_options("producer-opt", "nsq.Producer")


def run(argv: Sequence[str]) -> int:
    """to_nsq, until stdin ends or it is asked to end."""
    flags = parse(ToNsqFlags, argv, "to_nsq")
    if not flags.topic:
        raise ToolError("--topic required")
    if len(os.fsencode(flags.delimiter)) != 1:
        raise ToolError("--delimiter must be a single byte")
    try:
        config = producer_config(flags.producer_options, "to_nsq")
    except ConfigError as error:
        raise ToolError(f"failed to create nsq.Producer - {error}") from None
    if not flags.nsqds:
        raise ToolError("--nsqd-tcp-address required")
    return run_tool(lambda stop: publish_all(flags, config, stop))


async def publish_all(flags: ToNsqFlags, config: Config, stop: Stop) -> None:
    """Publish all of stdin, or what came of it until the tool is asked to end."""
    check_nsqds(flags.nsqds)
    # As in Go an address that is given twice counts once (NSQ spec 6.7).
    addresses = list(dict.fromkeys(flags.nsqds))
    for address in addresses:
        lines.count_producer(address)
    if flags.rate >= 1:
        say(f"Throttling messages rate to max:{flags.rate}/second")
    with _progress(len(addresses)) as advance:
        async with AsyncExitStack() as closing, until(stop, GRACE_S), asyncio.TaskGroup() as group:
            senders = [
                Sender(address, flags.topic, config, group, advance) for address in addresses
            ]
            for sender in senders:
                closing.push_async_callback(sender.close)
            async with until(stop):
                async for some in _portions(flags):
                    for sender in senders:
                        await sender.send(some)


async def _portions(flags: ToNsqFlags) -> AsyncIterator[list[bytes]]:
    """The records of stdin, as many at once as have come and --rate allows."""
    loop = asyncio.get_running_loop()
    throttle = Throttle(flags.rate, loop.time()) if flags.rate >= 1 else None
    async for some in records(os.fsencode(flags.delimiter)):
        if throttle is None:
            yield some
            continue
        sent = 0
        while sent < len(some):
            granted = throttle.grant(len(some) - sent, loop.time())
            if granted:
                yield some[sent : sent + granted]
                sent += granted
            else:
                await asyncio.sleep(throttle.wait)


@contextmanager
def _progress(shares: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to report how many bytes one of ``shares`` addresses has.

    It moves a bar where people see one, and does nothing elsewhere.
    """
    status = os.fstat(0)
    if not stat.S_ISREG(status.st_mode) or not sys.stderr.isatty():
        yield lambda _: None
        return
    from penstock.nsq.tools.to_nsq.bar import bar

    with bar(status.st_size - os.lseek(0, 0, os.SEEK_CUR)) as advance:
        yield lambda size: advance(size / shares)


class Throttle:
    """A limit of ``rate`` records a second, evenly; after a pause a second's worth is caught up."""

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        # The first record goes at once, as in Go (NSQ spec 6.7).
        self._allowed = 1.0
        self._seen = now

    def grant(self, wanted: int, now: float) -> int:
        """The number of these that may go now; at 0, ask again after ``wait`` seconds."""
        earned = (now - self._seen) * self._rate
        self._allowed = min(self._allowed + earned, max(1.0, self._rate))
        self._seen = now
        # A sum of floats may be short of a whole record by its last bits.
        granted = min(wanted, int(self._allowed + 1e-9))
        self._allowed -= granted
        return granted

    @property
    def wait(self) -> float:
        """Seconds until the next one may go."""
        return max(0.0, 1.0 - self._allowed) / self._rate


class Sender:
    """A publisher of records in order, in tasks of ``group``, which the first failure ends.

    A node that refuses a multi-publish because of its size gets the same records one by one, so
    that those before a record that is too big are published, and the refusal names that one.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        config: Config,
        group: asyncio.TaskGroup,
        advance: Callable[[int], None],
    ) -> None:
        from penstock.nsq.client import Producer

        self._producer = Producer(address, config=config, max_pending=_RECORDS_MAX)
        self._topic = topic
        self._group = group
        self._advance = advance
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        # A wrong topic is refused in the words for a single record.
        self._one_by_one = not is_valid_name(topic)

    async def send(self, records: Sequence[bytes]) -> None:
        """Send them, when not too much is under way."""
        await self._room.acquire()
        self._group.create_task(self._publish(records))

    async def close(self) -> None:
        """Close the connection; what is under way is given up."""
        await self._producer.close()

    async def _publish(self, records: Sequence[bytes]) -> None:
        if self._one_by_one or len(records) == 1:
            await self._publish_each(records)
        else:
            try:
                await self._producer.multi_publish(self._topic, records)
            except (BadMessage, BadBody):
                await self._publish_each(records)
        self._advance(sum(map(len, records)) + len(records))
        self._room.release()

    async def _publish_each(self, records: Sequence[bytes]) -> None:
        for record in records:
            await self._producer.publish(self._topic, record)
