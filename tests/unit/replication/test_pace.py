"""The pace of a follower that is behind: full where nobody publishes, gentle where many do."""

from __future__ import annotations

from penstock.core.units import MILLISECOND, SECOND
from penstock.replication.feed import NBYTES_MAX
from penstock.replication.pace import BUSY_PER_S, GENTLE_NBYTES, WINDOW_NS, Pace

NBYTES = 200
STEP_NS = 10 * MILLISECOND


class Behind:
    """A follower that takes what it gets, of a primary that publishes at a rate."""

    def __init__(self, lag: int, per_s: int, nbytes: int = NBYTES) -> None:
        self.pace, self.lag, self.now, self.head = Pace(), lag, SECOND, 0
        self.per_s, self.nbytes = per_s, nbytes

    def ask(self) -> int | None:
        """One request, ``STEP_NS`` after the one before; the room of its answer."""
        room = self.pace.room(self.now, self.head, self.lag)
        taken = min(self.lag, NBYTES_MAX if room is None else room)
        self.pace.sent(taken)
        came = self.per_s * STEP_NS // SECOND
        self.now += STEP_NS
        self.head += came
        self.lag += came * self.nbytes - taken
        return room

    def rooms(self, count: int) -> set[int | None]:
        return {self.ask() for _ in range(count)}


def test_it_is_full_where_nobody_publishes_or_few_do() -> None:
    for per_s in (0, 500):
        assert Behind(1 << 30, per_s).rooms(100) == {None}


def test_it_is_gentle_once_a_window_has_shown_that_many_publish() -> None:
    behind = Behind(1 << 30, 8000)
    assert behind.rooms(WINDOW_NS // STEP_NS) == {None}
    assert behind.rooms(100) == {GENTLE_NBYTES}
    behind.per_s = 0
    assert None in behind.rooms(2 * WINDOW_NS // STEP_NS)
    assert behind.rooms(100) == {None}


def test_a_follower_catches_up_whatever_is_published() -> None:
    for per_s in (BUSY_PER_S, 100_000, 500_000, 1_500_000):
        behind = Behind(64 << 20, per_s)
        for _ in range(10_000):
            behind.ask()
            if behind.lag <= per_s * NBYTES * STEP_NS // SECOND:
                break
        else:
            raise AssertionError(f"at {per_s} messages a second it stays behind: {behind.lag}")


def test_an_answer_holds_twice_what_came_meanwhile() -> None:
    behind = Behind(1 << 30, 500_000)
    behind.rooms(20)
    assert behind.ask() == 2 * 500_000 * NBYTES * STEP_NS // SECOND
    room = behind.ask()
    assert room is not None
    assert room < NBYTES_MAX


def test_where_more_comes_than_an_answer_holds_it_is_full() -> None:
    behind = Behind(1 << 30, 1_500_000)
    behind.rooms(20)
    assert behind.rooms(100) == {None}
