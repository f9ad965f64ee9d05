"""Groups that read the log: lag, rate, age and owner."""

from __future__ import annotations

import gc
from typing import cast

import pytest

from penstock.broker.group_ages import GroupAges
from penstock.broker.topic import Topic
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.node.log_groups import OWNED_NS, LogGroups, Pace, Rival
from penstock.testing.clock import FakeClock


class FakeLog:
    start_offset = 10
    next_offset = 100


class FakeTopic:
    """Where groups are."""

    def __init__(self, clock: FakeClock, groups: dict[str, int]) -> None:
        self.groups = groups
        self.group_ages = GroupAges(clock)
        for name in groups:
            self.group_ages.moved(name)
        self.log = FakeLog()


def groups(clock: FakeClock) -> LogGroups:
    return LogGroups(clock)


def topic_of(clock: FakeClock, **groups: int) -> Topic:
    return cast(Topic, FakeTopic(clock, groups))


@pytest.mark.parametrize(("offset", "lag"), [(100, 0), (40, 60), (10, 90), (3, 90), (200, 0)])
def test_lag_is_what_is_there_to_read(offset: int, lag: int) -> None:
    clock = FakeClock()
    (found,) = groups(clock).of(topic_of(clock, g=offset))
    assert (found.name, found.committed, found.lag, found.rate) == ("g", offset, lag, 0)


def test_the_lag_of_one() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=40)
    assert (found.lag(topic, "g"), found.lag(topic, "none")) == (60, None)


def test_rate() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0, a=5)
    found.moved(topic, "g")
    clock.advance(10 * SECOND)
    topic.groups["g"] = 50
    found.moved(topic, "g")
    a, g = found.of(topic)
    assert (a.name, a.rate) == ("a", 0)
    assert (g.name, g.rate) == ("g", 5)
    found.deleted(topic, "g")
    found.deleted(topic, "a")
    assert [each.rate for each in found.of(topic)] == [0] * 2


def test_what_is_known_goes_with_its_topic() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0)
    found.moved(topic, "g")
    assert len(found._known) == 1
    del topic
    gc.collect()
    assert len(found._known) == 0


def test_groups_that_a_dialect_shows_itself_are_left_out() -> None:
    found, topic = groups(FakeClock()), topic_of(FakeClock(), g=0, **{"rocketmq:g": 5})
    # While it does not run they hold the log all the same, and nobody else shows them.
    assert [each.name for each in found.of(topic)] == ["g", "rocketmq:g"]
    found.leave_out("rocketmq:")
    assert [each.name for each in found.of(topic)] == ["g"]


@pytest.mark.parametrize(
    ("retention", "stale_at"), [(0, 24 * HOUR), (HOUR, 48 * MINUTE), (72 * HOUR, 24 * HOUR)]
)
def test_a_group_that_leaves_messages_unread_becomes_stale(retention: int, stale_at: int) -> None:
    clock = FakeClock()
    topic = topic_of(clock, behind=40, ahead=100)
    found = LogGroups(clock, retention)
    clock.advance(stale_at - 1)
    assert [each.stale for each in found.of(topic)] == [False, False]
    clock.advance(1)
    ahead, behind = found.of(topic)
    assert (ahead.age, ahead.stale, ahead.expires_in) == (stale_at // SECOND, False, None)
    left = (retention - stale_at) // SECOND if retention else None
    assert (behind.age, behind.stale, behind.expires_in) == (stale_at // SECOND, True, left)
    clock.advance(retention)
    assert [each.expires_in for each in found.of(topic)] == [None, 0 if retention else None]


def test_the_owner_that_moved_a_group_last() -> None:
    clock = FakeClock()
    found, topic = groups(clock), topic_of(clock, g=0)
    assert found.rival(topic, "g", "one") is None
    found.moved(topic, "g", "one")
    clock.advance(OWNED_NS - 1)
    assert found.rival(topic, "g", "one") is found.rival(topic, "g", None) is None
    assert found.rival(topic, "g", "two") == Rival("one", 60.0)
    found.moved(topic, "g")
    assert found.rival(topic, "g", "two") is not None
    assert [each.owner for each in found.of(topic)] == ["one"]
    clock.advance(1)
    assert found.rival(topic, "g", "two") is None


def test_pace_over_a_minute() -> None:
    pace, now, offset = Pace(0, 1000), 0, 1000
    for _ in range(300):
        now += SECOND
        offset += 20
        pace.moved(now, offset)
    assert pace.rate(now, offset) == pytest.approx(20, rel=0.1)
    assert len(pace._marks) < 20
    assert pace.rate(now + 30 * SECOND, offset) == pytest.approx(10, rel=0.2)
    assert pace.rate(now + 90 * SECOND, offset) == 0
    # After a long rest only the last minute counts.
    now += 600 * SECOND
    pace.moved(now, offset + 600)
    assert pace.rate(now, offset + 600) == 10


def test_pace_at_the_beginning_and_backwards() -> None:
    pace = Pace(0, 0)
    pace.moved(SECOND // 10, 50)
    assert pace.rate(SECOND // 10, 50) == 50  # as if it had taken a second
    pace.moved(SECOND, 90)
    assert pace.rate(2 * SECOND, 90) == 45
    pace.moved(3 * SECOND, 0)
    assert pace.rate(3 * SECOND, 0) == 0
