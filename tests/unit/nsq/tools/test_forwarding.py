"""What the forwarding tools share."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.nsq.tools.forwarding import Report, Timings, percentile, summary, upstream_hosts
from penstock.testing.clock import FakeClock

MS = 1_000_000


@pytest.mark.parametrize(("mode", "first"), [("round-robin", "b"), ("hostpool", "a")])
def test_only_round_robin_begins_with_the_second(mode: str, first: str) -> None:
    hosts = upstream_hosts(mode, ["a", "b"], FakeClock(), SystemChance(1))
    assert hosts.take().address == first


def test_addresses_have_lines_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    for addresses in (["a"], ["a", "b"]):
        report = Report(addresses, 100)
        for timings in (report.of["a"], report.all):
            timings.add(1_000_000, 101)
    told = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    times = "finished 100 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms"
    assert told == [f"[aggregate]: {times}", f"[a]: {times}", f"[aggregate]: {times}"]


def told(every: int, *added: tuple[int, int]) -> list[str]:
    lines: list[str] = []
    timings = Timings("[aggregate]:", every, lines.append)
    for duration, count in added:
        timings.add(duration, count)
    return lines


def test_a_line_for_every_so_many_the_first_one_late() -> None:
    assert told(100, *[(MS, 1)] * 100) == []
    line = "[aggregate]: finished 100 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms"
    assert told(100, *[(MS, 1)] * 101) == [line]
    assert told(100, *[(MS, 1)] * 200) == [line]
    assert told(100, *[(MS, 1)] * 201) == [line, line]


def test_messages_together_count_as_one_by_one() -> None:
    one_by_one = [(duration * MS, 1) for duration in (1, 2, 3) for _ in range(117)]
    together = [(duration * MS, 117) for duration in (1, 2, 3)]
    assert told(100, *one_by_one) == told(100, *together)
    assert len(told(100, (MS, 1001))) == 10


def test_few_values_bring_a_warning() -> None:
    warning = (
        "Warning: use more than 100 status values for accurate percentiles (configured with 2)"
    )
    assert told(2) == [warning]
    assert told(2, (MS, 3)) == [
        warning,
        "[aggregate]: finished 2 - 99th: 1.00ms - 95th: 1.00ms - avg: 1.00ms",
    ]
    assert told(100) == []


@pytest.mark.parametrize("every", [0, -1])
def test_off(every: int) -> None:
    assert told(every, (MS, 1000)) == []


def test_percentiles_are_upstreams() -> None:
    assert percentile(50, [1, 2, 3, 4]) == 4
    assert percentile(95, list(range(1000))) == 951
    assert percentile(99, [7]) == 7


def test_the_line() -> None:
    durations = [round(n * MS / 8) for n in range(1, 101)]
    expected = "[a]: finished 100 - 99th: 12.50ms - 95th: 12.12ms - avg: 6.31ms"
    assert summary("[a]:", durations) == expected
