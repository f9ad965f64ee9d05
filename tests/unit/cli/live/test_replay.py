"""Batches and their pace."""

from __future__ import annotations

import time

from penstock.cli.live.replay import _batches, _paced


def test_batches_of_the_first_events() -> None:
    chunks = [[b"%d" % (chunk * 700 + i) for i in range(700)] for chunk in range(3)]
    batches = list(_batches(chunks, 1700))
    assert [len(batch) for batch in batches] == [500, 500, 500, 200]
    assert [event for batch in batches for event in batch] == [b"%d" % i for i in range(1700)]


def test_the_pace_is_held() -> None:
    started = time.perf_counter()
    assert len(list(_paced([b"x"] * 10, iter([[b"x"] * 10] * 2), 200))) == 3
    assert 0.09 < time.perf_counter() - started < 10
    assert len(list(_paced([b"x"], iter([[b"x"]] * 99), 0))) == 100
