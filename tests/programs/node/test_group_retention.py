"""Groups that nobody moves: when they are deleted, and when not."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.node import group_retention
from penstock.node.group_retention import KEEP_NS
from penstock.storage.recovery.damage import Damage
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start

DAY = 24 * HOUR


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def reading(
    start: Start, clock: FakeClock, retention: int = DAY, **options: object
) -> Running:
    """An nsqd with groups of topic t: behind and ahead, at 1 and 3 of 3 messages."""
    nsqd = await start(clock=clock, group_retention=retention, **options)
    await nsqd.publish("t", b"a", b"b", b"c")
    await commit(nsqd, "behind", 1)
    await commit(nsqd, "ahead", 3)
    return nsqd


async def commit(nsqd: Running, group: str, offset: int) -> None:
    body = b'{"offsets":{"0":%d}}' % offset
    assert (await nsqd.post(f"/log/commit?topic=t&group={group}", body))[0] == 200


def wait(nsqd: Running, clock: FakeClock, ns: int) -> None:
    """Let time pass, and nsqd look at its groups in small steps."""
    for _ in range(20):
        clock.advance(ns // 20)
        nsqd.nsqd.node.housekeeping.ticks[0](clock.monotonic_ns())


def groups(nsqd: Running) -> set[str]:
    return set(nsqd.nsqd.node.broker.topics["t"].groups)


async def test_a_group_that_leaves_messages_unread_is_deleted_with_a_line(
    start: Start, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nsqd = await reading(start, clock)
    wait(nsqd, clock, DAY - SECOND)
    assert groups(nsqd) == {"behind", "ahead"}
    wait(nsqd, clock, 20 * SECOND)
    assert groups(nsqd) == {"ahead"}
    assert ("TOPIC(t): deleting group behind, which has not moved for 24h0m0s "
            "(--group-retention=24h0m0s): it held 2 messages, about ") in caplog.text  # fmt: skip
    assert ", from offset 1 on" in caplog.text
    assert "log_groups" in await nsqd.topic("t")


async def test_the_deletion_survives_a_kill(start: Start, clock: FakeClock, tmp_path: Path) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, DAY + SECOND)
    shutil.copytree(tmp_path / "topics", tmp_path / "killed" / "topics")
    assert groups(await start(data_path=tmp_path / "killed")) == {"ahead"}


async def test_a_commit_keeps_a_group(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    for _ in range(4):
        wait(nsqd, clock, 20 * HOUR)
        await commit(nsqd, "behind", 1)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_a_group_that_has_read_all_is_not_idle(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, 5 * DAY)
    await nsqd.publish("t", b"d")
    wait(nsqd, clock, 20 * HOUR)
    assert groups(nsqd) == {"ahead"}
    wait(nsqd, clock, 5 * HOUR)
    assert groups(nsqd) == set()


async def test_without_the_option_no_group_is_deleted(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock, 0)
    wait(nsqd, clock, 1000 * DAY)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_a_clock_set_ahead_deletes_no_group(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    clock.set_wall(clock.wall_ns() + 1000 * DAY)
    wait(nsqd, clock, HOUR)
    await nsqd.stop()
    clock.set_wall(clock.wall_ns() + 1000 * DAY)
    nsqd = await start(clock=clock, group_retention=DAY)
    wait(nsqd, clock, 22 * HOUR)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_an_age_goes_on_after_a_restart(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, 23 * HOUR)
    await nsqd.stop()
    clock.advance(1000 * DAY)  # the time for which it is down does not count
    nsqd = await start(clock=clock, group_retention=DAY)
    wait(nsqd, clock, 59 * MINUTE)
    assert groups(nsqd) == {"behind", "ahead"}
    wait(nsqd, clock, 2 * MINUTE)
    assert groups(nsqd) == {"ahead"}


async def test_an_age_goes_on_after_a_kill(start: Start, clock: FakeClock, tmp_path: Path) -> None:
    nsqd = await reading(start, clock)
    topic = nsqd.nsqd.node.broker.topics["t"]
    nsqd.nsqd.node.broker.save()
    assert not topic.changed
    wait(nsqd, clock, 20 * HOUR)  # in which nothing is written but ages
    nsqd.nsqd.node.broker.save()
    shutil.copytree(tmp_path / "topics", tmp_path / "killed" / "topics")
    again = await start(data_path=tmp_path / "killed", clock=clock)
    age_ns = again.nsqd.node.broker.topics["t"].group_ages.age_ns("behind")
    assert 20 * HOUR - KEEP_NS - HOUR <= age_ns <= 20 * HOUR


async def test_a_damaged_topic_keeps_its_groups(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    topic = nsqd.nsqd.node.broker.topics["t"]
    topic.damage.report(Damage("log", "damaged"))
    wait(nsqd, clock, 2 * DAY)
    assert groups(nsqd) == {"behind", "ahead"}
    topic.accept_damage()
    wait(nsqd, clock, MINUTE)
    assert groups(nsqd) == {"ahead"}


async def test_what_holds_the_log_for_rocketmq_stays(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    nsqd.nsqd.node.broker.topics["t"].commit_group("rocketmq:g", 1)
    wait(nsqd, clock, 2 * DAY)
    assert groups(nsqd) == {"ahead", "rocketmq:g"}


async def test_many_groups_are_deleted_a_few_at_a_time(
    start: Start, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_retention, "DELETIONS_MAX", 2)
    nsqd = await reading(start, clock)
    for number in range(4):
        await commit(nsqd, f"g{number}", 0)
    clock.advance(DAY)
    found = []
    for _ in range(3):
        clock.advance(SECOND)
        nsqd.nsqd.node.housekeeping.ticks[0](clock.monotonic_ns())
        found.append(len(groups(nsqd)))
    assert found == [4, 2, 1]


async def test_nsqd_looks_by_itself(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    clock.advance(DAY)
    await nsqd.until(lambda: groups(nsqd) == {"ahead"})
