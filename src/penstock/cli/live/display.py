"""Drawing a board: in place with rich on a terminal, as plain lines elsewhere (CI, a file)."""

from __future__ import annotations

import contextlib
import sys
import termios
from collections import deque
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.clock import SYSTEM_CLOCK, Clock

_RATE_WINDOW_NS = 3_000_000_000


@dataclass(slots=True)
class Service:
    """One program or part: ``state`` is a word (starting, ready, stopped), ``detail`` the rest."""

    name: str
    state: str = "waiting"
    detail: str = ""


class Gauge:
    """A count that grows towards a total, and how fast it has grown in the last seconds."""

    def __init__(self, name: str, total: int | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self._clock = clock
        self._seen: deque[tuple[int, int]] = deque()

    def set(self, done: int) -> None:
        """Note the count as it is now."""
        self.done = done
        now = self._clock.monotonic_ns()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] < now - _RATE_WINDOW_NS:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Counts a second over the last seconds; 0 when nothing came in them."""
        if len(self._seen) < 2:
            return 0.0
        first, last = self._seen[0], self._seen[-1]
        elapsed_ns = max(self._clock.monotonic_ns(), last[0]) - first[0]
        return (last[1] - first[1]) * 1e9 / elapsed_ns if elapsed_ns else 0.0

    @property
    def complete(self) -> bool:
        return self.total is not None and self.done >= self.total


@dataclass(slots=True)
class Board:
    """Everything a display shows."""

    title: str
    services: list[Service] = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    doing: str = ""

    def service(self, name: str) -> Service:
        return next(each for each in self.services if each.name == name)


_PLAIN_EVERY_NS = 2_000_000_000
_REDRAW_PER_S = 5
_COLOURS = {
    "ready": "green",
    "running": "green",
    "done": "green",
    "starting": "yellow",
    "waiting": "bright_black",
    "stopping": "yellow",
    "stopped": "bright_black",
    "failed": "red",
}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LOCAL_MODES = 3


class Display(Protocol):
    """Something that shows a board until it is closed."""

    def refresh(self) -> None:
        """Show the board as it is now."""

    def note(self, text: str) -> None:
        """Say one thing once, in a line that stays."""

    def close(self) -> None:
        """Leave the last state on the screen and give the terminal back."""


def open_display(board: Board, stream: IO[str] | None = None) -> Display:
    """The display that suits the stream (stdout)."""
    out = stream or sys.stdout
    return TerminalDisplay(board, out) if out.isatty() else PlainDisplay(board, out)


class PlainDisplay:
    """A line when a service or a phase changes, and one every two seconds with the counts."""

    def __init__(self, board: Board, out: IO[str], clock: Clock = SYSTEM_CLOCK) -> None:
        self._board = board
        self._out = out
        self._clock = clock
        self._started_ns = clock.monotonic_ns()
        self._due_ns = 0
        self._said: dict[str, str] = {}
        self._say(board.title)

    def refresh(self) -> None:
        for service in self._board.services:
            self._once(service.name, f"{service.name}: {service.state} {service.detail}".rstrip())
        if self._board.doing:
            self._once("doing", self._board.doing)
        now = self._clock.monotonic_ns()
        if now >= self._due_ns:
            self._due_ns = now + _PLAIN_EVERY_NS
            self._counts()

    def note(self, text: str) -> None:
        self._say(text)

    def close(self) -> None:
        self._counts()

    def _counts(self) -> None:
        parts = [_plain_gauge(gauge) for gauge in self._board.gauges]
        parts += [f"{name} {value}" for name, value in self._board.facts.items()]
        if parts:
            self._once("counts", ", ".join(parts))

    def _once(self, what: str, text: str) -> None:
        if self._said.get(what) != text:
            self._said[what] = text
            self._say(text)

    def _say(self, text: str) -> None:
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        with quiet_pipe():  # Ctrl-C ends `| tee` too, and before the services have stopped
            print(f"[{elapsed_s:6.1f} s] {text}", file=self._out, flush=True)


def _plain_gauge(gauge: Gauge) -> str:
    of = f" of {gauge.total:,}" if gauge.total else ""
    return f"{gauge.name} {gauge.done:,}{of} ({gauge.rate:,.0f}/s)"


class TerminalDisplay:
    """A panel redrawn in place a few times a second."""

    def __init__(self, board: Board, out: IO[str], clock: Clock = SYSTEM_CLOCK) -> None:
        self._board = board
        self._echo = _Echo()
        self._echo.stop()
        self._clock = clock
        self._started_ns = clock.monotonic_ns()
        self._live = Live(
            console=Console(file=out),
            get_renderable=self._draw,
            refresh_per_second=_REDRAW_PER_S,
            redirect_stderr=False,
        )
        self._live.start()

    def refresh(self) -> None:
        """Do nothing: the panel redraws itself."""

    def note(self, text: str) -> None:
        self._live.console.print(Text(text))

    def close(self) -> None:
        self._live.stop()
        self._echo.restore()

    def _draw(self) -> RenderableType:
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) // 1_000_000_000
        parts: list[RenderableType] = []
        if self._board.services:
            parts += [_services(self._board.services), Text()]
        if self._board.gauges:
            parts += [_gauges(self._board.gauges), Text()]
        parts.append(self._last_line(elapsed_s))
        return Panel(
            Group(*parts),
            title=Text(self._board.title, style="bold"),
            title_align="left",
            subtitle=f"{elapsed_s // 60:02d}:{elapsed_s % 60:02d}",
            subtitle_align="right",
            border_style="blue",
            padding=(1, 2),
        )

    def _last_line(self, elapsed_s: int) -> RenderableType:
        line = Text()
        for name, value in self._board.facts.items():
            line.append(f"{name} ", style="bright_black").append(f"{value}   ")
        if self._board.doing:
            turn = self._clock.monotonic_ns() // 100_000_000 % len(_SPINNER)
            line.append(f"{_SPINNER[turn]} ", style="cyan").append(self._board.doing)
        return line


def _services(services: list[Service]) -> Table:
    table = Table.grid(padding=(0, 2))
    for service in services:
        colour = _COLOURS.get(service.state, "white")
        table.add_row(
            Text("●", style=colour),
            Text(service.name, style="bold"),
            Text(service.state, style=colour),
            Text(service.detail, style="bright_black"),
        )
    return table


def _gauges(gauges: list[Gauge]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(ratio=1, min_width=20)
    table.add_column(justify="right")
    table.add_column(justify="right", min_width=9)
    table.expand = True
    for gauge in gauges:
        table.add_row(Text(gauge.name, style="bold"), _bar(gauge), _count(gauge), _rate(gauge))
    return table


def _bar(gauge: Gauge) -> ProgressBar:
    total = gauge.total or max(1, gauge.done)
    return ProgressBar(total=total, completed=gauge.done, finished_style="green")


def _count(gauge: Gauge) -> Text:
    of = f" / {gauge.total:,}" if gauge.total else ""
    return Text(f"{gauge.done:,}{of}")


def _rate(gauge: Gauge) -> Text:
    if gauge.complete:
        return Text("all", style="green")
    return Text(f"{gauge.rate:,.0f}/s", style="cyan")


class _Echo:
    """The echo of the keyboard, stopped while a panel is redrawn in place.

    The ``^C`` that a terminal writes where the cursor is pushes the panel down a line, and the next
    drawing leaves its upper border behind. Nothing happens where standard input is not a terminal.
    """

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def stop(self) -> None:
        """Show no key that is pressed; Ctrl-C and its like work on."""
        if self._before is not None or not sys.stdin.isatty():
            return
        self._before = termios.tcgetattr(sys.stdin)
        modes = list(self._before)
        modes[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)

    def restore(self) -> None:
        """The terminal as it was; one that is gone does not mind."""
        before, self._before = self._before, None
        if before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
