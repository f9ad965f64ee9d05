"""nsq_stat: a channel's rates, depth and counters, as a line every interval (NSQ spec 6.2)."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TextIO

from penstock.cluster.cluster import Addresses, Cluster
from penstock.cluster.exchange import Timeouts
from penstock.cluster.fanout import Strict
from penstock.cluster.http_client import HttpClient
from penstock.cluster.stats import ChannelStats, channels_named, whole_channel
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.quote import quote
from penstock.core.settings.option_kinds import DURATION, Kind
from penstock.core.settings.options import option
from penstock.core.units import SECOND
from penstock.net.descriptors import make_output_wait
from penstock.nsq.tools.errors import ToolError, writing_stdout
from penstock.nsq.tools.flags import ToolFlags, check_addresses, parse, user_agent
from penstock.nsq.tools.lifecycle import STOP_SIGNALS, Stop, run_tool, until

if TYPE_CHECKING:
    from rich.console import Console


class Row(NamedTuple):
    """A line of the report: rates in messages a second, and what the channel holds now."""

    ingress: int
    egress: int
    total: int
    mem: int
    disk: int
    inflt: int
    deferred: int
    requeued: int
    timed_out: int
    messages: int
    clients: int

    @classmethod
    def of(cls, before: ChannelStats, now: ChannelStats, seconds: float) -> Row:
        """The row of a channel, from its figures now and ``seconds`` earlier."""
        came = now.message_count - before.message_count
        # Go computes the messages that left: what came, less what the depth grew by.
        left = came - (now.depth - before.depth)
        return cls(
            # Cut off, as Go's conversion to an integer does (NSQ spec 6.2).
            int(came / seconds),
            int(left / seconds),
            now.depth,
            now.memory_depth,
            now.backend_depth,
            now.in_flight_count,
            now.deferred_count,
            now.requeue_count,
            now.timeout_count,
            now.message_count,
            now.client_count,
        )


_NAMES: Final = ("ingress", "egress", "total", "mem", "disk", "inflt", "def", "req", "t-o", "msgs",
                 "clients")  # fmt: skip
_WIDTHS: Final = (7, 7, 7, 7, 7, 5, 5, 7, 7, 12, 7)
_NARROW: Final = (7, 6, 5, 5, 4, 5, 3, 3, 3, 4, 7)
_GROUPS: Final = (("rate", 0, 2), ("depth", 2, 7), ("metadata", 7, 11))
_RULES: Final = (
    "------rate------",
    "----------------depth----------------",
    "--------------metadata---------------",
)
_WIDE: Final = len("+".join(_RULES))


class Table(Protocol):
    """The table that the report goes to."""

    def header(self) -> None:
        """The names of the columns."""
        ...

    def row(self, row: Row) -> None:
        """One report."""
        ...


class PlainTable:
    """The report as Go prints it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def header(self) -> None:
        """The names of the columns."""
        self._print("+".join(_RULES))
        self._print(_line(_NAMES, _WIDTHS))

    def row(self, row: Row) -> None:
        """One report."""
        self._print(_line(list(map(str, row)), _WIDTHS))

    def _print(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


class ColourTable:
    """The report for a person at a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._widths = list(_WIDTHS if console.width >= _WIDE else _NARROW)
        self._before: Row | None = None

    def header(self) -> None:
        """The names of the columns, under the names of their groups."""
        rules = [
            f" {name} ".center(len(_line(_NAMES[start:end], self._widths[start:end])), "─")
            for name, start, end in _GROUPS
        ]
        self._print("─┬─".join(rules), "bright_black")
        self._print(_line(_NAMES, self._widths, bar="│"), "bold")

    def row(self, row: Row) -> None:
        """One report, its numbers coloured."""
        from rich.text import Text

        widths = [
            max(len(str(value)), width) for value, width in zip(row, self._widths, strict=True)
        ]
        if widths != self._widths:
            self._widths = widths
            self.header()
        line = Text()
        for index, (value, width) in enumerate(zip(row, widths, strict=True)):
            if index in (2, 7):
                line.append(" │", "bright_black")
            style = self._style(index, row)
            line.append(" " if index else "").append(f"{value:>{width}}", style)
        self._console.print(line, no_wrap=True, crop=False, soft_wrap=True)
        self._before = row

    def _style(self, index: int, row: Row) -> str:
        before, name = self._before, Row._fields[index]
        if name == "clients":
            return "bold" if row.clients else "red"
        if not row[index]:
            return "bright_black"
        if name in ("ingress", "egress"):
            return "green" if name == "ingress" else "cyan"
        grew = before is not None and row[index] > before[index]
        if name in ("requeued", "timed_out"):
            return "red" if grew else ""
        return "yellow" if grew and name in ("total", "mem", "disk") else ""

    def _print(self, text: str, style: str) -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _line(words: Sequence[str], widths: Sequence[int], bar: str = "|") -> str:
    """The words right-aligned, with bars between the groups where there are all of them."""
    cells = [f"{word:>{width}}" for word, width in zip(words, widths, strict=True)]
    if len(cells) < len(_NAMES):
        return " ".join(cells)
    groups = [" ".join(cells[start:end]) for _, start, end in _GROUPS]
    return f" {bar} ".join(groups)


HEADER_EVERY = 25


class _Count(Kind):
    """A whole number of 32 bits; what is not given is None."""

    placeholder = "value"

    def from_flag(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
        if not -(1 << 31) <= int(text) < 1 << 31:
            raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
        return int(text)

    def show_default(self, value: Any) -> str:
        return ""


class StatFlags(ToolFlags):
    """The command line of nsq_stat; times in nanoseconds."""

    topic: str = option("", "NSQ topic")
    channel: str = option("", "NSQ channel")
    interval: int = option(
        2 * SECOND, "duration of time between polling/printing output", kind=DURATION
    )
    count: int | None = option(None, "number of reports", kind=_Count())
    connect_timeout: int = option(
        2 * SECOND, "timeout for HTTP connect", flag="http-client-connect-timeout", kind=DURATION
    )
    request_timeout: int = option(
        5 * SECOND, "timeout for HTTP request", flag="http-client-request-timeout", kind=DURATION
    )
    nsqds: tuple[str, ...] = option(
        (), "nsqd HTTP address (may be given multiple times)", flag="nsqd-http-address"
    )
    lookupds: tuple[str, ...] = option(
        (), "lookupd HTTP address (may be given multiple times)", flag="lookupd-http-address"
    )


def run(argv: Sequence[str]) -> int:
    """nsq_stat, until its last report or a signal."""
    flags = parse(StatFlags, argv, "nsq_stat")
    check(flags)
    make_output_wait()
    # Unlike the other tools, nsq_stat ends with 0 at HUP as well (NSQ spec 6.2).
    return run_tool(lambda stop: report(flags, stop), stop_signals=(*STOP_SIGNALS, signal.SIGHUP))


def check(flags: StatFlags) -> None:
    """Raise ToolError for flags that cannot be used."""
    # The order of these checks is that of nsq_stat in Go, which names the first fault alone.
    if not flags.topic or not flags.channel:
        raise ToolError("--topic and --channel are required")
    if flags.interval <= 0:
        raise ToolError("--interval should be positive")
    if flags.connect_timeout <= 0:
        raise ToolError("--http-client-connect-timeout should be positive")
    if flags.request_timeout <= 0:
        raise ToolError("--http-client-request-timeout should be positive")
    if flags.count is not None and flags.count <= 0:
        raise ToolError("--count should be positive")
    check_addresses("nsqd-http-address", flags.nsqds, flags.lookupds)
    for name, addresses in (("nsqd", flags.nsqds), ("lookupd", flags.lookupds)):
        # Go takes any address that begins with "http" for a URL.
        if any(address.startswith("http") for address in addresses):
            raise ToolError(f"--{name}-http-address error - address should not contain scheme")


async def report(flags: StatFlags, stop: Stop) -> None:
    """Print until the count is reached or the user has seen enough. Raises ToolError."""
    timeouts = Timeouts(flags.connect_timeout / SECOND, flags.request_timeout / SECOND)
    async with HttpClient(timeouts, agent=user_agent("nsq_stat")) as http, until(stop):
        cluster = Cluster(http, Addresses(flags.lookupds, flags.nsqds), SYSTEM_CLOCK)
        await _report(cluster, flags)


async def _report(cluster: Cluster, flags: StatFlags) -> None:
    interval = seconds = flags.interval / SECOND
    loop = asyncio.get_running_loop()
    table, before, due = _table(), None, loop.time()
    # The first look only gives the numbers to compare with: Go prints no row for it.
    for number in count() if flags.count is None else range(flags.count + 1):
        now = await _look(cluster, flags)
        with writing_stdout():
            if number % HEADER_EVERY == 0:
                table.header()
            if before is not None:
                table.row(Row.of(before, now, seconds))
        if number == flags.count:
            return
        # On a schedule, so that the time the queries take does not spoil the rates.
        before, due = now, due + interval
        late = max(0.0, loop.time() - due)
        seconds, due = interval + late, due + late
        await asyncio.sleep(due - loop.time())


async def _look(cluster: Cluster, flags: StatFlags) -> ChannelStats:
    """The channel over all its nodes: one that fails spoils the sums, and ends the tool."""
    topic, channel = flags.topic, flags.channel
    try:
        # nsq_stat in Go ends at any failure of any node, as sums would be wrong without it.
        nodes = await cluster.topic_producers(topic, Strict())
    except NoAnswerError as error:
        raise ToolError(f"ERROR: failed to get topic producers - {error}") from None
    if not nodes:  # Go's text ends after the colon
        reason = f"no node has the topic {flags.topic}"
        raise ToolError(f"ERROR: failed to get nsqd stats - failed to query any nsqd: {reason}")
    try:
        stats = await cluster.stats(nodes, Strict(), topic, channel, clients=False)
    except NoAnswerError as error:
        raise ToolError(f"ERROR: failed to get nsqd stats - {error}") from None
    found = channels_named(channel, stats)
    if not found:
        where = f"channel({channel}) in stats metadata for topic({topic})"
        raise ToolError(f"ERROR: failed to find {where}")
    return whole_channel(channel, found)


def _table() -> Table:
    if not sys.stdout.isatty():
        return PlainTable(sys.stdout)
    from rich.console import Console

    return ColourTable(Console())
