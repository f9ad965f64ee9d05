"""The followers of a node: those that ask, and how far they are."""

from __future__ import annotations

import pytest

from penstock.node.followers import FOLLOWERS_MAX, FOLLOWS_NS, Followers
from penstock.storage.batch import Batch
from penstock.storage.log import Log
from penstock.testing.clock import FakeClock
from tests.unit.storage.logs import new_disk, new_log


@pytest.fixture
def log() -> Log:
    log = new_log(new_disk())
    log.append([Batch.build(0, log.id_base, 1, 3, 1, [b"abc"])])
    return log


def test_the_one_that_is_ahead_counts_for_one_and_all_for_more(log: Log) -> None:
    followers = Followers(FakeClock())
    assert followers.copied("t", log) == 0
    followers.heard("a", {("t", log.id_base): 2})
    followers.heard("b", {("t", log.id_base): 1, ("u", log.id_base): 3})
    followers.heard("c", {("t", log.id_base + 1): 3})
    assert [followers.copied("t", log, count) for count in (1, 2, 3, 4)] == [2, 1, 0, 0]
    followers.heard("a", {("t", log.id_base): 9})
    assert followers.copied("t", log) == 3


def test_who_waits_hears_of_each_change(log: Log) -> None:
    clock = FakeClock()
    followers = Followers(clock)
    counts: list[int] = []
    followers.changed.append(lambda: counts.append(len(followers)))
    followers.heard("a", {})
    clock.advance(FOLLOWS_NS)
    followers.heard("b", {})
    followers.forget_silent(clock.monotonic_ns())
    clock.advance(1)
    followers.forget_silent(clock.monotonic_ns())
    followers.gone("b")
    followers.gone("b")
    assert counts == [1, 2, 1, 0]


def test_there_is_an_end_to_their_number() -> None:
    followers = Followers(FakeClock())
    for number in range(FOLLOWERS_MAX + 5):
        followers.heard(str(number), {})
    assert len(followers) == FOLLOWERS_MAX
    followers.gone("0")
    assert len(followers) == FOLLOWERS_MAX - 1, "the first ones have kept their places"
    followers.ask()
