"""nsq_tail: the messages of some topics, as they come, on stdout (NSQ spec 6.3)."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from penstock.core.settings.options import option
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import ToolError, say
from penstock.nsq.tools.flags import (
    ConsumerFlags,
    check_names,
    check_sources,
    consumer_config,
    parse,
)
from penstock.nsq.tools.run import Stop, closed_on, run_tool
from penstock.nsq.tools.stdout import Stdout
from penstock.nsq.tools.tail_view import ColourView, PlainView, View

if TYPE_CHECKING:
    from penstock.nsq.client import Consumer, Delivery


class TailFlags(ConsumerFlags):
    """The command line of nsq_tail."""

    channel: str = option("", "NSQ channel")
    n: int = option(0, "total messages to show (will wait if starved)")
    print_topic: bool = option(False, "print topic name where message was received")
    topics: tuple[str, ...] = option((), "NSQ topic (may be given multiple times)", flag="topic")


def run(argv: Sequence[str]) -> int:
    """nsq_tail, until it has shown enough or is asked to end."""
    flags = parse(TailFlags, argv, "nsq_tail")
    check_sources(flags)
    if not flags.topics:
        raise ToolError("--topic required")
    if not flags.channel:
        flags.channel = f"tail{secrets.randbelow(999_999):06d}#ephemeral"
    if 0 < flags.n < flags.max_in_flight:
        flags.max_in_flight = flags.n
    return run_tool(lambda stop: tail(flags, stop))


async def tail(flags: TailFlags, stop: Stop) -> None:
    """Show messages until asked to end, or until one of the topics has brought its ``n``."""
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(_consumer(topic, flags)) for topic in flags.topics
        ]
        output, view = Stdout(), _view(flags)
        async with closed_on(stop, *consumers), asyncio.TaskGroup() as group:
            watching = group.create_task(output.closed())
            # As in Go a number below 0 is no limit either.
            tails = [Tail(consumer, view, output, max(0, flags.n)) for consumer in consumers]
            await asyncio.wait([group.create_task(each.show(stop)) for each in tails])
            watching.cancel()


class Tail:
    """A consumer that shows one topic's messages and finishes them: ``limit`` of them, 0 for
    all.
    """

    def __init__(self, consumer: Consumer, view: View, output: Stdout, limit: int) -> None:
        self._consumer = consumer
        self._view = view
        self._output = output
        self._limit = limit
        self._shown = 0

    async def show(self, stop: Stop) -> None:
        """Run until the consumer is closed, or the limit is reached, which asks the tool to end."""
        async for delivery in self._consumer.deliveries():
            if self._limit and len(delivery) > self._limit - self._shown:
                await self._show_some(delivery)
            else:
                await self._write(delivery.bodies())
                self._take_no_more_than_wanted()
                delivery.finish()
            if self._limit and self._shown >= self._limit:
                stop.request()
                return

    async def _show_some(self, delivery: Delivery) -> None:
        """Show as many messages as are wanted; the others are for somebody else."""
        messages = list(delivery.messages())
        wanted = self._limit - self._shown
        await self._write([message.body for message in messages[:wanted]])
        self._take_no_more_than_wanted()
        for message in messages[:wanted]:
            message.finish()
        for message in messages[wanted:]:
            message.requeue(0, backoff=False)

    def _take_no_more_than_wanted(self) -> None:
        """Before the last is finished, so that the node does not send another in its place."""
        if self._limit and self._shown >= self._limit:
            self._consumer.max_in_flight = 0

    async def _write(self, bodies: Sequence[bytes]) -> None:
        await self._output.write(self._view.render(self._consumer.topic, bodies))
        self._shown += len(bodies)


def _consumer(topic: str, flags: TailFlags) -> Consumer:
    say(f"Adding consumer for topic: {topic}")
    check_names([topic], flags.channel)
    return new_consumer(flags, topic, flags.channel, consumer_config(flags, "nsq_tail"))


def _view(flags: TailFlags) -> View:
    if not sys.stdout.isatty():
        return PlainView(flags.print_topic)
    from rich.console import Console

    return ColourView(Console(), flags.topics, flags.print_topic)
