"""to_nsq: publishes what comes on stdin, record by record, to every nsqd (NSQ spec 6.7)."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

from penstock.core.errors import ConfigError
from penstock.core.settings.options import option
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
from penstock.nsq.tools.run import GRACE_S, Stop, run_tool, until
from penstock.nsq.tools.to_nsq.sender import Sender
from penstock.nsq.tools.to_nsq.splitting import Splitter
from penstock.nsq.tools.to_nsq.stdin import blocks
from penstock.nsq.tools.to_nsq.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.nsq.client import Config


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
                async for records in _portions(flags):
                    for sender in senders:
                        await sender.send(records)


async def _portions(flags: ToNsqFlags) -> AsyncIterator[list[bytes]]:
    """The records of stdin, as many at once as have come and --rate allows."""
    loop = asyncio.get_running_loop()
    throttle = Throttle(flags.rate, loop.time()) if flags.rate >= 1 else None
    async for records in _records(Splitter(os.fsencode(flags.delimiter))):
        if throttle is None:
            yield records
            continue
        sent = 0
        while sent < len(records):
            granted = throttle.grant(len(records) - sent, loop.time())
            if granted:
                yield records[sent : sent + granted]
                sent += granted
            else:
                await asyncio.sleep(throttle.wait)


async def _records(splitter: Splitter) -> AsyncIterator[list[bytes]]:
    async for block in blocks():
        if records := splitter.feed(block):
            yield records
    if records := splitter.end():
        yield records


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
