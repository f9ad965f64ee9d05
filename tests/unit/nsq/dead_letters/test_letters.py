"""Offsets as runs."""

from __future__ import annotations

from penstock.nsq.dead_letters.letters import Run, count_of, first_of, joined, newest_of


def test_joined() -> None:
    assert joined([0, 1, 2, 5, 8, 9]) == [Run(0, 3), Run(5, 6), Run(8, 10)]
    assert joined([]) == []


def test_ends() -> None:
    runs = [Run(0, 3), Run(5, 6), Run(8, 12)]
    assert count_of(runs) == 8
    assert first_of(runs) == [Run(0, 1)]
    assert newest_of(runs, 1) == [Run(11, 12)]
    assert newest_of(runs, 6) == [Run(2, 3), Run(5, 6), Run(8, 12)]
    assert newest_of(runs, 99) == runs
    assert first_of([]) == newest_of([], 3) == []
