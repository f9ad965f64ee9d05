"""Messages for a time of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release, timers
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.broker.delays.timers import Waiting
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.message_store import Found
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Iterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


@pytest.fixture
def services(lives: Lives) -> Services:
    return lives.begin("T")


def after(ms: int, body: bytes = b"x", **more: str) -> Draft:
    return Draft("T", 1, body, properties.join({"KEYS": "k", "TIMER_DELAY_MS": str(ms), **more}))


def bodies(services: Services) -> list[bytes]:
    return [message.body for message in stored(services, "T", 1)]


async def settle(services: Services) -> int:
    while (due_ms := await services.timers.step()) <= services.now_ms:
        pass
    return due_ms


# --- where a message goes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "due_ms"),
    [
        ({}, None),
        ({"TIMER_DELAY_SEC": "3"}, 103_000),
        ({"TIMER_DELAY_MS": "3"}, 100_003),
        ({"TIMER_DELIVER_MS": "100001"}, 100_001),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELIVER_MS": "1"}, 103_000),
        ({"TIMER_DELAY_SEC": "3", "TIMER_OUT_MS": "1"}, None),
    ],
)
def test_when_a_message_wants_to_be_delivered(found: dict[str, str], due_ms: int | None) -> None:
    assert timers.deliver_ms(found, 100_000) == due_ms


def test_a_message_waits_in_the_timer_topic(services: Services) -> None:
    draft = services.publisher.divert(after(1500))
    assert (draft.topic, draft.queue) == (names.TIMER_TOPIC, 0)
    found = properties.parse(draft.properties)
    assert found["TIMER_OUT_MS"] == str(services.now_ms + 1500)
    assert (found["REAL_TOPIC"], found["REAL_QID"], found["KEYS"]) == ("T", "1", "k")


@pytest.mark.parametrize(
    "found",
    [
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELIVER_MS": "5"},
        {"TIMER_DELAY_MS": "9", "TIMER_OUT_MS": "9"},
    ],
)
def test_what_is_due_already_does_not_wait(services: Services, found: dict[str, str]) -> None:
    draft = Draft("T", 0, b"x", properties.join(found))
    assert services.publisher.divert(draft) is draft


@pytest.mark.parametrize(
    ("found", "remark"),
    [
        ({"TIMER_DELAY_SEC": "259201"}, "max delay 259200000ms"),
        ({"TIMER_DELIVER_MS": "9" * 18}, "max delay"),
        ({"TIMER_DELAY_MS": "soon"}, "TIMER_DELAY_MS is no number"),
        ({"TIMER_DELAY_MS": "-1"}, "is no number"),
        ({"TIMER_DELAY_MS": "9" * 30}, "is no number"),
    ],
)
def test_impossible_times_are_refused(
    services: Services, found: dict[str, str], remark: str
) -> None:
    with pytest.raises(RefusedError, match=remark) as refused:
        services.publisher.divert(Draft("T", 0, b"x", properties.join(found)))
    assert refused.value.code == 13


async def test_no_more_than_there_is_room_for(
    lives: Lives, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = lives.begin("T")
    monkeypatch.setattr(services.timers, "_most", 2)
    await services.publisher.publish_one(after(1000))
    await services.publisher.publish_one(after(2000))
    with pytest.raises(RefusedError, match="2 timer messages wait already"):
        await services.publisher.publish_one(after(3000))
    await settle(services)
    with pytest.raises(RefusedError, match="2 timer messages wait already"):
        await services.publisher.publish_one(after(3000))
    clock.advance(SECOND)
    await settle(services)
    await services.publisher.publish_one(after(3000))
    assert len(services.timers) == 2


def at(ms: int, body: bytes) -> Draft:
    """A message with an appointment."""
    return Draft("T", 1, body, properties.join({"TIMER_DELIVER_MS": str(ms)}))


async def deliver(services: Services) -> None:
    """Deliver all messages that are due, whatever the system's time is."""
    for _ in range(5):
        await services.timers.step()


# --- the table ------------------------------------------------------------------------------------


def test_waiting_messages_by_time_and_where_they_begin() -> None:
    waiting = Waiting()
    assert (waiting.next_ms, waiting.low(77), len(waiting)) == (FAR, 77, 0)
    for offset, due_ms in ((0, 50), (1, 20), (5000, 20), (5001, 90)):
        waiting.add(due_ms, offset)
    assert waiting.next_ms == 20
    assert waiting.due(50, 10) == [1, 5000, 0]
    assert waiting.due(50, 2) == [1, 5000]
    assert waiting.low(6000) == 0
    for _ in range(3):
        waiting.remove_first()
    assert waiting.next_ms == 90
    assert waiting.low(6000) == 5001 >> 10 << 10
    waiting.remove_first()
    assert waiting.low(6000) == 6000


def test_what_is_set_aside_waits_and_is_not_due() -> None:
    waiting = Waiting()
    for offset, due_ms in ((0, 50), (1, 20), (2, 30)):
        waiting.add(due_ms, offset)
    waiting.set_first_aside()
    assert (waiting.next_ms, waiting.least_ms, len(waiting)) == (30, 20, 3)
    assert waiting.due(50, 9) == [2, 0]
    waiting.bring_back()
    assert waiting.due(50, 9) == [1, 2, 0]
    assert (waiting.next_ms, waiting.least_ms) == (20, 20)


def test_appointments_move_and_others_stay() -> None:
    waiting = Waiting()
    waiting.add(50, 0)
    waiting.add(60, 1, appointment=True)
    waiting.add(70, 2)
    waiting.add(80, 3, appointment=True)
    waiting.move_appointments(-20)
    assert waiting.due(60, 9) == [1, 0, 3]
    waiting.move_appointments(-100)
    assert (waiting.next_ms, waiting.due(60, 9)) == (-60, [1, 3, 0])


# --- when it is delivered -------------------------------------------------------------------------


async def test_each_message_at_its_time(services: Services, clock: FakeClock) -> None:
    start = services.now_ms
    for ms in (3000, 1, 500, 72 * 3600 * 1000, 1000):
        await services.publisher.publish_one(after(ms, b"%d" % ms))
    assert await settle(services) == start + 1
    clock.advance(MILLISECOND)
    assert await settle(services) == start + 500
    assert bodies(services) == [b"1"]
    clock.advance(499 * MILLISECOND)
    assert await settle(services) == start + 1000
    clock.advance(72 * HOUR)
    assert await settle(services) == FAR
    assert bodies(services) == [b"1", b"500", b"1000", b"3000", b"259200000"]
    assert "TIMER_OUT_MS" in stored(services, "T", 1)[0].properties
    assert len(services.timers) == 0


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    services: Services, clock: FakeClock, by: int
) -> None:
    await services.publisher.publish_one(after(1000, b"before"))
    await services.timers.step()
    clock.set_wall(clock.wall_ns() + by)
    await services.publisher.publish_one(after(1000, b"after"))
    clock.advance(999 * MILLISECOND)
    await deliver(services)
    assert bodies(services) == []
    clock.advance(MILLISECOND)
    await deliver(services)
    assert bodies(services) == [b"before", b"after"]


async def test_appointments_are_with_the_systems_time(services: Services, clock: FakeClock) -> None:
    start = services.now_ms
    for minutes in (30, 90, 60):
        await services.publisher.publish_one(at(start + minutes * 60_000, b"%d" % minutes))
    await deliver(services)
    clock.set_wall(clock.wall_ns() - HOUR)
    await services.publisher.publish_one(at(start - 10 * 60_000, b"-10"))
    clock.advance(50 * MINUTE)
    await deliver(services)
    assert bodies(services) == [b"-10"]
    clock.set_wall(start * MILLISECOND + HOUR)
    await deliver(services)
    assert bodies(services) == [b"-10", b"30", b"60"]
    clock.advance(30 * MINUTE)
    await deliver(services)
    assert bodies(services)[3:] == [b"90"]


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_a_restart_after_the_systems_time_was_set_loses_nothing(
    lives: Lives, services: Services, clock: FakeClock, by: int
) -> None:
    start = services.now_ms
    await services.publisher.publish_one(after(1000, b"1"))
    await services.publisher.publish_one(after(40 * 60_000, b"2"))
    await services.publisher.publish_one(at(start + 100 * 60_000, b"3"))
    clock.set_wall(clock.wall_ns() + by)
    await services.publisher.publish_one(after(20 * 60_000, b"4"))
    clock.advance(SECOND)
    await deliver(services)
    assert bodies(services) == [b"1"]
    services.files.save(timers.FILE)
    services = lives.begin("T")
    clock.advance(3 * HOUR)
    await deliver(services)
    assert set(bodies(services)) == {b"1", b"2", b"3", b"4"}


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_the_systems_time_is_set_between_a_request_and_its_storage(
    lives: Lives, services: Services, clock: FakeClock, by: int
) -> None:
    draft = services.publisher.divert(after(60_000, b"1"))
    clock.set_wall(clock.wall_ns() + by)
    await services.publisher.publish_one(draft)
    await services.publisher.publish_one(after(1000, b"0"))
    clock.advance(SECOND)
    await deliver(services)
    assert bodies(services) == [b"0"]
    services.files.save(timers.FILE)
    services = lives.begin("T")
    clock.advance(MINUTE)
    await deliver(services)
    assert bodies(services) == [b"0", b"1"]


async def test_equal_times_keep_their_order(services: Services, clock: FakeClock) -> None:
    for number in range(400):
        await services.publisher.publish_one(after(1000, b"%d" % number))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"%d" % number for number in range(400)]


async def test_what_cannot_be_stored_is_tried_again(services: Services, clock: FakeClock) -> None:
    await services.publisher.publish_one(after(1000))
    clock.advance(SECOND)
    failing = FailingPuts(services, "T", names.SCHEDULE_TOPIC)
    assert await services.timers.step() == services.now_ms + 1000
    failing.mend()
    await settle(services)
    assert bodies(services) == [b"x"]


async def test_a_topic_that_takes_none_holds_up_no_other(
    services: Services, clock: FakeClock
) -> None:
    failing = FailingPuts(services, "T")
    await services.publisher.publish_one(after(1000))
    clock.advance(SECOND)
    assert await settle(services) == FAR
    failing.mend()
    assert services.schedule.progress() == {3: (0, 1)}, "it comes 10 s later"
    clock.advance(10 * SECOND)
    await services.schedule.step()
    assert bodies(services) == [b"x"]


async def test_what_cannot_be_read_holds_up_no_other(
    lives: Lives, services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ms in (1000, 2000, 3000):
        await services.publisher.publish_one(after(ms, b"%d" % ms))
    await settle(services)
    clock.advance(3 * SECOND)
    message_at = services.store.message_at

    def fails(topic: str, queue: int, offset: int) -> StoredMessage | None:
        if topic == names.TIMER_TOPIC and offset == 1:
            raise StorageError("input/output error")
        return message_at(topic, queue, offset)

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "message_at", fails)
        assert await settle(services) == services.now_ms + timers.UNREADABLE_MS
        assert bodies(services) == [b"1000", b"3000"]
        assert len(services.timers) == 1
    clock.advance(timers.UNREADABLE_MS * MILLISECOND)
    assert await settle(services) == FAR
    assert bodies(services) == [b"1000", b"3000", b"2000"]


async def test_what_cannot_be_read_is_not_taken_for_delivered(
    lives: Lives, services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ms in (1000, 2000):
        await services.publisher.publish_one(after(ms, b"%d" % ms))
    await settle(services)
    clock.advance(2 * SECOND)
    message_at = services.store.message_at

    def fails(topic: str, queue: int, offset: int) -> StoredMessage | None:
        if not offset:
            raise StorageError("input/output error")
        return message_at(topic, queue, offset)

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "message_at", fails)
        await settle(services)
    services.files.save(timers.FILE)
    services = lives.begin("T")
    await settle(services)
    assert sorted(bodies(services)) == [b"1000", b"2000", b"2000"]


async def test_what_can_be_read_again_while_others_cannot_be_stored_is_not_lost(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await services.publisher.publish_one(after(1000, b"unreadable"))
    await services.publisher.publish_one(after(11_000, b"later"))
    await settle(services)
    clock.advance(SECOND)

    def fails(topic: str, queue: int, offset: int) -> StoredMessage | None:
        raise StorageError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "message_at", fails)
        await settle(services)
    retried_at = clock.monotonic_ns() + timers.UNREADABLE_MS * MILLISECOND
    services.timers._retry_ms += 1  # just behind the time of the other
    clock.advance(retried_at - clock.monotonic_ns())
    failing = FailingPuts(services, "T", names.SCHEDULE_TOPIC)
    await services.timers.step()
    clock.advance(2 * SECOND)
    await services.timers.step()
    failing.mend()
    await settle(services)
    assert bodies(services) == [b"later", b"unreadable"]


async def test_what_is_new_and_cannot_be_read_holds_up_nothing_that_is_due(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await services.publisher.publish_one(after(1000, b"old"))
    await settle(services)
    await services.publisher.publish_one(after(1000, b"new"))
    clock.advance(SECOND)
    read = services.store.read

    def fails(topic: str, *rest: int) -> list[Found]:
        if topic == names.TIMER_TOPIC:
            raise StorageError("input/output error")
        return read(topic, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "read", fails)
        assert await settle(services) == services.now_ms + timers.UNREADABLE_MS
        assert bodies(services) == [b"old"]
    await settle(services)
    assert bodies(services) == [b"old", b"new"]


async def test_what_says_no_time_holds_nothing_up(services: Services, clock: FakeClock) -> None:
    await store(services, names.TIMER_TOPIC, 0, b"lost")
    await services.publisher.publish_one(after(1000))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"x"]


# --- restarts -------------------------------------------------------------------------------------


async def test_a_restart_delivers_neither_twice_nor_never(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    for ms in (5000, 1000, 9000, 2000):
        await services.publisher.publish_one(after(ms, b"%d" % ms))
    clock.advance(3 * SECOND)
    await settle(services)
    assert bodies(services) == [b"1000", b"2000"]
    services.files.save(timers.FILE)
    await services.publisher.publish_one(
        after(100, b"late")
    )  # behind what was saved, though its time is near
    services = lives.begin("T")
    clock.advance(10 * SECOND)
    await settle(services)
    assert bodies(services) == [b"1000", b"2000", b"late", b"5000", b"9000"]


async def test_a_crash_doubles_what_was_delivered_last(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(after(1000, b"a"))
    await services.publisher.publish_one(after(2000, b"b"))
    clock.advance(SECOND)
    await settle(services)
    services.files.save(timers.FILE)
    clock.advance(SECOND)
    await settle(services)
    services = lives.begin("T")
    await settle(services)
    assert bodies(services) == [b"a", b"b", b"b"]


async def test_a_delay_begins_when_the_message_is_stored(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    draft = services.publisher.divert(after(100, b"slow"))
    await services.publisher.publish_one(after(1000, b"quick"))
    clock.advance(SECOND)
    await settle(services)
    await services.store.append(draft)
    services.files.save(timers.FILE)
    services = lives.begin("T")
    await settle(services)
    assert bodies(services) == [b"quick"]
    clock.advance(100 * MILLISECOND)
    await settle(services)
    assert bodies(services) == [b"quick", b"slow"]


async def test_a_crash_within_a_backlog(lives: Lives, services: Services, clock: FakeClock) -> None:
    count = 3 * timers.SLICE
    for number in range(count):
        await services.publisher.publish_one(after(number // 100 + 1, b"%d" % number))
    clock.advance(SECOND)
    while not bodies(services):
        await services.timers.step()
    assert len(bodies(services)) == timers.SLICE
    services.files.save(timers.FILE)
    services = lives.begin("T")
    await settle(services)
    assert {int(body) for body in bodies(services)} == set(range(count))


async def test_what_is_saved_during_a_put_says_nothing_of_it(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(after(1000))
    await settle(services)
    clock.advance(SECOND)
    failing = FailingPuts(services, "T", names.SCHEDULE_TOPIC)
    await services.timers.step()
    services.files.save(timers.FILE)
    failing.mend()
    services = lives.begin("T")
    await settle(services)
    assert bodies(services) == [b"x"]


async def test_a_deleted_timer_topic_is_forgotten(services: Services, clock: FakeClock) -> None:
    await services.publisher.publish_one(after(1000))
    await settle(services)
    await services.store.delete(names.TIMER_TOPIC)
    assert await settle(services) == FAR
    await services.publisher.publish_one(after(1000, b"new"))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"new"]


async def test_what_waits_is_held(services: Services, clock: FakeClock) -> None:
    for ms in (1000, 2000):
        await services.publisher.publish_one(after(ms))
    await settle(services)
    topic = services.store.topic(names.TIMER_TOPIC)
    services.retention.adopt(topic)
    assert topic.groups[release.HOLDER] == topic.floor() == 0
    clock.advance(2 * SECOND)
    await settle(services)
    assert topic.floor() == 2


@pytest.mark.parametrize(
    "value", [[], {}, {"low": 1, "read": 2}, {"low": 1, "read": -2, "deliveredMs": 1}]
)
def test_damaged_progress_is_refused(services: Services, value: object) -> None:
    with pytest.raises(BodyError):
        services.timers.load(value)


async def test_what_was_delivered_before_a_start_takes_nobodys_room(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    """Not even while the start has not read yet which messages those are."""
    await services.publisher.publish_one(after(HOUR // MILLISECOND, b"late"))
    for _ in range(5):
        await services.publisher.publish_one(after(1))
    clock.advance(SECOND)
    await settle(services)
    services.files.save(timers.FILE)
    services = lives.begin("T")
    services.timers._most = 2
    await services.publisher.publish_one(after(1000, b"new"))
    await settle(services)
    assert len(services.timers) == 2
    with pytest.raises(RefusedError, match="which is the most"):
        services.publisher.divert(after(1000))
