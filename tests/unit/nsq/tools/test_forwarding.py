"""What the forwarding tools share."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.nsq.tools.forwarding import Report, upstream_hosts
from penstock.testing.clock import FakeClock


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
