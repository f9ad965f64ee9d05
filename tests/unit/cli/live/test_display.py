"""Plain lines for files, a panel for terminals."""

from __future__ import annotations

import io

from penstock.cli.live.display import (
    Board,
    Gauge,
    PlainDisplay,
    Service,
    TerminalDisplay,
    open_display,
)
from penstock.testing.clock import FakeClock


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = FakeClock()
    gauge = Gauge("rows", 1000, clock)
    assert gauge.rate == 0
    for done in range(0, 1001, 100):
        gauge.set(done)
        clock.advance(500_000_000)
    assert 150 < gauge.rate < 250
    assert gauge.complete
    clock.advance(10_000_000_000)
    gauge.set(1000)
    gauge.set(1000)
    assert gauge.rate < 20


def test_without_a_total_nothing_is_complete() -> None:
    gauge = Gauge("rows")
    gauge.set(5)
    assert not gauge.complete


def board() -> Board:
    made = Board("demo", services=[Service("nsqd", "ready", "tcp 4150")])
    gauge = Gauge("archived", 2000)
    gauge.set(1000)
    made.gauges.append(gauge)
    made.facts["lag"] = "1,000"
    made.doing = "working"
    return made


def test_plain_lines_say_each_thing_once() -> None:
    out = io.StringIO()
    clock = FakeClock()
    display = PlainDisplay(board(), out, clock)
    for _ in range(3):
        display.refresh()
        clock.advance(3_000_000_000)
    display.note("port in use")
    display.close()
    lines = [line.split("] ", 1)[1] for line in out.getvalue().splitlines()]
    counts = "archived 1,000 of 2,000 (0/s), lag 1,000"
    assert lines == ["demo", "nsqd: ready tcp 4150", "working", counts, "port in use"]


def test_a_panel_holds_everything() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    display = open_display(board(), out)
    assert isinstance(display, TerminalDisplay)
    display.close()
    for part in ("demo", "nsqd", "tcp 4150", "archived", "1,000 / 2,000", "lag", "working"):
        assert part in out.getvalue()


def test_a_file_gets_plain_lines() -> None:
    assert isinstance(open_display(board(), io.StringIO()), PlainDisplay)
