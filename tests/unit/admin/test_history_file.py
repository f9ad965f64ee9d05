"""The last day of figures: a point every five minutes, and a file that keeps them."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.admin.history.day import DAY_POINT_S
from penstock.admin.history.history import FIGURES, History
from penstock.admin.history.history_file import HistoryFile
from penstock.admin.history.ring import DAY_S, HOUR_S
from penstock.admin.history.row_numbers import Key

from .conftest import channel, topic
from .test_history import sample

BEGUN = 1_000_000.0
LOOK_S = 100.0


def fill(history: History, begun: float, points: int) -> float:
    """Looks at a node whose topic gets a message a second; the time of the last."""
    time = begun
    for look in range(points * int(DAY_POINT_S / LOOK_S) + 1):
        time = begun + look * LOOK_S
        count = int(time - begun)
        found = sample(
            topic("t", channel("c", depth=count, message_count=count), message_count=count)
        )
        history.take(time, [("n", found)])
    return time


def kept(path: Path) -> HistoryFile:
    path.touch()
    return HistoryFile(str(path))


def test_a_point_of_the_day_has_the_mean_rate_and_the_last_depth() -> None:
    history = History(LOOK_S)
    fill(history, BEGUN, 3)
    series = history.series(Key("t"), is_day=True)
    assert series is not None
    assert series.times == [BEGUN + DAY_POINT_S * number for number in (1, 2, 3)]
    rates = series.values[FIGURES.index("in")]
    assert rates[1:] == [1.0, 1.0]
    assert 0 < rates[0] < 1  # the first look has no rate
    assert series.waiting == [300.0, 600.0, 900.0]


def test_it_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(LOOK_S, kept(path))
    ended = fill(history, BEGUN, 4)
    before = history.series(Key("t", "c"), is_day=True)
    again = History(LOOK_S, kept(path))
    again.restore(ended + 60)
    assert before is not None
    found = again.series(Key("t", "c"), is_day=True)
    assert found is not None
    assert (found.times, found.values) == (before.times, before.values)
    hour = again.series(Key("t", "c"))
    assert hour is not None
    assert hour.times == before.times
    assert all(not math.isnan(value) for value in hour.values[0])
    last = fill(again, ended + DAY_POINT_S, 1)
    longer = again.series(Key("t", "c"), is_day=True)
    assert longer is not None
    assert longer.times == [*before.times, last]


@pytest.mark.parametrize("size", [None, 10], ids=["deleted", "cut short"])
def test_a_file_that_somebody_takes_away_begins_anew(tmp_path: Path, size: int | None) -> None:
    path = tmp_path / "history"
    history = History(LOOK_S, kept(path))
    ended = fill(history, BEGUN, 4)
    if size is None:
        path.unlink()
    else:
        os.truncate(path, size)
    last = fill(history, ended + DAY_POINT_S, 2)
    again = History(LOOK_S, kept(path))
    again.restore(last + 60)
    series = again.series(Key("t", "c"), is_day=True)
    assert series is not None
    assert last in series.times
    assert min(series.times) > ended


def test_what_is_older_than_a_day_is_written_no_more(tmp_path: Path) -> None:
    path = tmp_path / "history"
    ended = fill(History(LOOK_S, kept(path)), BEGUN, 4)
    size = path.stat().st_size
    file = kept(path)
    assert [point.time for point in file.load(ended - DAY_POINT_S)] == [ended - DAY_POINT_S, ended]
    assert 0 < path.stat().st_size < size
    later = History(LOOK_S, kept(path))
    later.restore(ended + DAY_S + HOUR_S)
    assert later.series(Key("t")) is None
    assert path.stat().st_size == 0


@pytest.mark.parametrize("damage", [b"", b"x" * 40, b"PSH1" + b"\xff" * 8])
def test_damage_ends_what_is_read(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history"
    ended = fill(History(LOOK_S, kept(path)), BEGUN, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + damage if not damage else whole + damage)
    found = [point.time for point in kept(path).load(0)]
    assert found == ([ended - DAY_POINT_S] if not damage else [ended - DAY_POINT_S, ended])
    assert f"{path} is damaged after byte {path.stat().st_size}:" in caplog.text


@contextmanager
def room(nbytes: int) -> Iterator[None]:
    """Files of this process take no more bytes than this, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_points_after_a_full_disk_are_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history"
    file = kept(path)
    history = History(LOOK_S, file)
    ended = fill(history, BEGUN, 2)
    whole = path.stat().st_size
    with room(whole + 10):
        lost = fill(history, ended + LOOK_S, 2)
    assert path.stat().st_size == whole + 10
    assert caplog.text.count("cannot be kept - File too large") == 1
    fill(history, lost + LOOK_S, 1)
    *before, after = [point.time for point in kept(path).load(0)]
    assert before == [ended - DAY_POINT_S, ended]
    assert after > lost


def test_a_disk_that_is_full_at_the_start_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "history"
    ended = fill(History(LOOK_S, kept(path)), BEGUN, 2)
    path.write_bytes(path.read_bytes() + b"PSH1")
    history = History(LOOK_S, kept(path))
    with room(10):
        history.restore(ended + 1)
    assert list(tmp_path.iterdir()) == [path]
    last = fill(history, ended + DAY_POINT_S, 1)
    assert [point.time for point in kept(path).load(0)] == [ended - DAY_POINT_S, ended, last]


def test_a_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gone" / "history"
    path.parent.mkdir()
    file = kept(path)
    path.unlink()
    path.parent.rmdir()
    fill(History(LOOK_S, file), BEGUN, 3)
    assert caplog.text.count("cannot be kept - No such file or directory") == 1
