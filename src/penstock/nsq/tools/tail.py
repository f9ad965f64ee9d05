"""nsq_tail: the messages of some topics, as they come, on stdout (NSQ spec 6.3)."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import select
import stat
import sys
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.settings.options import option
from penstock.net.descriptors import write_all
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import OutputClosed, ToolError, say, writing_stdout
from penstock.nsq.tools.flags import (
    ConsumerFlags,
    check_names,
    check_sources,
    consumer_config,
    parse,
)
from penstock.nsq.tools.lifecycle import Stop, closed_on, run_tool

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from penstock.nsq.client import Consumer, Delivery

# What moves the cursor, rings the bell or turns the text around, and so could deceive a reader.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")


class View(Protocol):
    """The output for messages of one topic that arrived together."""

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        ...


class PlainView:
    """Each body and a line end, behind ``topic | `` where that is wanted."""

    def __init__(self, print_topic: bool) -> None:
        self._print_topic = print_topic

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        prefix = f"{topic} | ".encode() if self._print_topic else b""
        return prefix + (b"\n" + prefix).join(bodies) + b"\n"


class ColourView:
    """JSON in colours, topics in a column, and nothing that could play tricks on a terminal."""

    def __init__(self, console: Console, topics: Sequence[str], print_topic: bool) -> None:
        from rich.highlighter import JSONHighlighter

        self._console = console
        self._json = JSONHighlighter()
        self._width = max(map(len, topics)) if print_topic else 0
        self._colours = {
            topic: _COLOURS[number % len(_COLOURS)] for number, topic in enumerate(topics)
        }

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        with self._console.capture() as captured:
            for body in bodies:
                self._show(topic, body)
        return captured.get().encode()

    def _show(self, topic: str, body: bytes) -> None:
        from rich.text import Text

        if self._width:
            # The lines after a body's first stand under it.
            shown = Text()
            for number, line in enumerate(self._body(body).split("\n", allow_blank=True)):
                name = topic if not number else ""
                shown.append("\n" if number else "")
                shown.append(f"{name:<{self._width}}", self._colours[topic])
                shown.append(" │ ", "bright_black").append_text(line)
        else:
            shown = self._body(body)
        self._console.print(shown, soft_wrap=True)

    def _body(self, body: bytes) -> Text:
        from rich.text import Text

        decoded = body.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        text = Text(_CONTROL.sub(lambda found: _escape(found[0]), decoded))
        if decoded.lstrip()[:1] in ("{", "["):
            self._json.highlight(text)
        text.highlight_regex(r"\\x[0-9a-f]{2}|\\u20[0-9a-f]{2}", "bright_black")
        return text


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


class Stdout:
    """A file descriptor to write to, one write at a time."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises OutputClosed, ToolError."""
        with writing_stdout():
            if self._is_file:
                write_all(self._descriptor, data)
            else:
                await self._write_beside(data)

    async def closed(self) -> None:
        """Wait until the reader has gone, as ``head`` does in the end. Raises OutputClosed."""
        if self._is_file:
            return
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()

        def watch() -> None:
            poll = select.poll()
            poll.register(self._descriptor, 0)  # errors are reported unasked
            events = poll.poll()
            with suppress(RuntimeError):  # the loop has ended meanwhile
                if any(event & select.POLLERR for _, event in events):
                    loop.call_soon_threadsafe(gone.set)

        threading.Thread(target=watch, name="reader of stdout", daemon=True).start()
        await gone.wait()
        raise OutputClosed

    async def _write_beside(self, data: bytes) -> None:
        """Write in a separate thread, which does not keep the process if the reader never reads."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def settle(error: OSError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        def work() -> None:
            failure = None
            try:
                write_all(self._descriptor, data)
            except OSError as error:
                failure = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, failure)

        threading.Thread(target=work, name="stdout", daemon=True).start()
        await written


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
        # Each run has a channel to itself, which goes with it (NSQ spec 6.3).
        flags.channel = f"tail{secrets.randbelow(999_999):06d}#ephemeral"
    # As in Go, so that nodes do not send more than is shown (NSQ spec 6.3).
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
            # As in Go a number below 0 means no limit either.
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
