"""Messages for a time of their own: delivered then, through restarts, unless they are recalled."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import StorageError
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import release, timers
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.broker.delays.recalls import Handle, handle_of
from penstock.rocketmq.broker.delays.timers import Waiting
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.filling import FailingPuts, stored
from tests.unit.rocketmq.broker.peers import ask_later, refused

from .conftest import Scene, after, at

by_an_hour = pytest.mark.parametrize("by", [-HOUR, HOUR])

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


@pytest.mark.parametrize(
    ("found", "remark"),
    [
        ({"TIMER_DELAY_MS": "0"}, None),
        ({"TIMER_DELIVER_MS": "5"}, None),
        ({"TIMER_DELAY_MS": "9", "TIMER_OUT_MS": "9"}, None),
        ({"TIMER_DELAY_SEC": "259201"}, "max delay 259200000ms"),
        ({"TIMER_DELIVER_MS": "9" * 18}, "max delay"),
        ({"TIMER_DELAY_MS": "soon"}, "TIMER_DELAY_MS is not a number"),
        ({"TIMER_DELAY_MS": "-1"}, "is not a number"),
        ({"TIMER_DELAY_MS": "9" * 30}, "is not a number"),
    ],
)
def test_what_is_due_already_does_not_wait_and_impossible_times_are_refused(
    scene: Scene, found: dict[str, str], remark: str | None
) -> None:
    draft = Draft("T", 0, b"x", properties.join(found))
    if remark is None:
        assert scene.services.publisher.divert(draft) is draft
        return
    with refused(13, remark):
        scene.services.publisher.divert(draft)


async def test_no_more_than_there_is_room_for(scene: Scene) -> None:
    scene.services.timers._most = 2
    await scene.send(after(1000), after(2000))
    with refused(13, "2 timer messages wait already, which is the most"):
        await scene.send(after(3000))
    await scene.settle()
    with refused(13, "2 timer messages wait already"):
        await scene.send(after(3000))
    await scene.deliver(SECOND)
    await scene.send(after(3000))
    assert len(scene.services.timers) == 2


async def test_what_was_delivered_before_a_start_takes_nobodys_room(scene: Scene) -> None:
    """Not even while the start has not read yet which messages those are."""
    await scene.send(after(HOUR // MILLISECOND, b"late"), *[after(1)] * 5)
    await scene.deliver(SECOND)
    scene.crash(timers.FILE)
    scene.services.timers._most = 2
    await scene.send(after(1000, b"new"))
    await scene.settle()
    assert len(scene.services.timers) == 2
    with refused(13, "which is the most"):
        scene.services.publisher.divert(after(1000))


# --- the table ------------------------------------------------------------------------------------


def in_turn(model: list[tuple[int, int, bool, bool]]) -> list[tuple[int, int, bool, bool]]:
    return sorted(each for each in model if not each[3])


@given(st.lists(st.one_of(
    st.tuples(st.just("add"), st.integers(0, 50), st.booleans()),
    st.tuples(st.just("move"), st.integers(-100, 100), st.none()),
    st.tuples(st.sampled_from(["deliver", "aside", "back"]), st.none(), st.none()),
), max_size=40), st.integers(0, 60), st.integers(0, 5))  # fmt: skip
def test_waiting_messages_are_a_sorted_list(
    changes: list[tuple[str, Any, Any]], now_ms: int, count: int
) -> None:
    waiting = Waiting()
    model: list[tuple[int, int, bool, bool]] = []  # time, offset, an appointment, set aside
    for number, (kind, value, is_appointment) in enumerate(changes):
        offset = 400 * number
        if kind == "add":
            waiting.add(value, offset, appointment=is_appointment)
            model.append((value, offset, is_appointment, False))
        elif kind == "deliver" and in_turn(model):
            waiting.remove_first()
            model.remove(in_turn(model)[0])
        elif kind == "aside" and in_turn(model):
            waiting.set_first_aside()
            model.remove(first := in_turn(model)[0])
            model.append((*first[:3], True))
        elif kind == "back":
            waiting.bring_back()
            model = [(*each[:3], False) for each in model]
        elif kind == "move":
            waiting.move_appointments(value)
            model = [(ms + value * moves, at_, moves, False) for ms, at_, moves, _ in model]
        turn = in_turn(model)
        assert len(waiting) == len(model)
        assert waiting.next_ms == (turn[0][0] if turn else FAR)
        assert waiting.least_ms == min((each[0] for each in model), default=FAR)
        due = [each[1] for each in turn if each[0] <= now_ms]
        assert waiting.due(now_ms, count) == due[:count]
        assert waiting.low(77) == min((each[1] >> 10 << 10 for each in model), default=77)


# --- when it is delivered -------------------------------------------------------------------------


async def test_each_message_at_its_time(scene: Scene) -> None:
    start = scene.services.now_ms
    draft = scene.services.publisher.divert(after(1500))
    assert (draft.topic, draft.queue) == (names.TIMER_TOPIC, 0)
    assert properties.parse(draft.properties).items() >= {
        "TIMER_OUT_MS": str(start + 1500), "REAL_TOPIC": "T", "REAL_QID": "1", "KEYS": "k",
    }.items()  # fmt: skip
    assert handle_of(draft, "broker-a", 5)[4:] == ("null", "5"), "it has no id"
    await scene.send(*(after(ms, b"%d" % ms) for ms in (3000, 1, 500, 72 * 3600 * 1000, 1000)))
    assert await scene.settle() == start + 1
    scene.clock.advance(MILLISECOND)
    assert await scene.settle() == start + 500
    assert scene.bodies(1) == [b"1"]
    scene.clock.advance(499 * MILLISECOND)
    assert await scene.settle() == start + 1000
    scene.clock.advance(72 * HOUR)
    assert await scene.settle() == FAR
    assert scene.bodies(1) == [b"1", b"500", b"1000", b"3000", b"259200000"]
    assert "TIMER_OUT_MS" in stored(scene.services, "T", 1)[0].properties
    assert len(scene.services.timers) == 0


async def test_equal_times_keep_their_order(scene: Scene) -> None:
    bodies = [b"%d" % number for number in range(400)]
    await scene.send(*(after(1000, body) for body in bodies))
    scene.clock.advance(SECOND)
    await scene.settle()
    assert scene.bodies(1) == bodies


@by_an_hour
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    scene: Scene, by: int
) -> None:
    await scene.send(after(1000, b"before"))
    await scene.services.timers.step()
    scene.set_time(by)
    await scene.send(after(1000, b"after"))
    assert await scene.deliver(999 * MILLISECOND) == []
    assert await scene.deliver(MILLISECOND) == [b"before", b"after"]


async def test_appointments_are_with_the_systems_time(scene: Scene) -> None:
    start = scene.services.now_ms
    await scene.send(*(at(start + m * 60_000, b"%d" % m) for m in (30, 90, 60)))
    await scene.deliver()
    scene.set_time(-HOUR)
    await scene.send(at(start - 10 * 60_000, b"-10"))
    assert await scene.deliver(50 * MINUTE) == [b"-10"]
    scene.clock.set_wall(start * MILLISECOND + HOUR)
    assert await scene.deliver() == [b"-10", b"30", b"60"]
    assert (await scene.deliver(30 * MINUTE))[3:] == [b"90"]


@by_an_hour
async def test_a_restart_after_the_systems_time_was_set_loses_nothing(
    scene: Scene, by: int
) -> None:
    later = at(scene.services.now_ms + 100 * 60_000, b"3")
    await scene.send(after(1000, b"1"), after(40 * 60_000, b"2"), later)
    scene.set_time(by)
    await scene.send(after(20 * 60_000, b"4"))
    assert await scene.deliver(SECOND) == [b"1"]
    scene.crash(timers.FILE)
    assert set(await scene.deliver(3 * HOUR)) == {b"1", b"2", b"3", b"4"}


@by_an_hour
async def test_the_systems_time_is_set_between_a_request_and_its_storage(
    scene: Scene, by: int
) -> None:
    draft = scene.services.publisher.divert(after(60_000, b"1"))
    scene.set_time(by)
    await scene.send(draft, after(1000, b"0"))
    assert await scene.deliver(SECOND) == [b"0"]
    scene.crash(timers.FILE)
    assert await scene.deliver(MINUTE) == [b"0", b"1"]


# --- failing disks --------------------------------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again(scene: Scene) -> None:
    await scene.send(after(1000))
    scene.clock.advance(SECOND)
    failing = FailingPuts(scene.services, "T", names.SCHEDULE_TOPIC)
    assert await scene.services.timers.step() == scene.services.now_ms + 1000
    failing.mend()
    assert await scene.deliver() == [b"x"]


async def test_a_topic_that_takes_none_holds_up_no_other(scene: Scene) -> None:
    failing = FailingPuts(scene.services, "T")
    await scene.send(after(1000))
    scene.clock.advance(SECOND)
    assert await scene.settle_timers() == FAR
    failing.mend()
    assert scene.services.schedule.progress() == {3: (0, 1)}, "it comes 10 s later"
    assert await scene.deliver(10 * SECOND) == [b"x"]


async def test_what_cannot_be_read_holds_up_no_other(scene: Scene) -> None:
    await scene.send(*(after(ms, b"%d" % ms) for ms in (1000, 2000, 3000)))
    await scene.settle()
    scene.clock.advance(3 * SECOND)
    with scene.unreadable("message_at", lambda _topic, _queue, offset: offset == 1):
        assert await scene.settle() == scene.services.now_ms + timers.UNREADABLE_MS
        assert scene.bodies(1) == [b"1000", b"3000"]
        assert len(scene.services.timers) == 1
    scene.clock.advance(timers.UNREADABLE_MS * MILLISECOND)
    assert await scene.settle() == FAR
    assert scene.bodies(1) == [b"1000", b"3000", b"2000"]


async def test_what_cannot_be_read_is_not_taken_for_delivered(scene: Scene) -> None:
    await scene.send(*(after(ms, b"%d" % ms) for ms in (1000, 2000)))
    await scene.settle()
    scene.clock.advance(2 * SECOND)
    with scene.unreadable("message_at", lambda _topic, _queue, offset: not offset):
        await scene.settle()
    scene.crash(timers.FILE)
    assert sorted(await scene.deliver()) == [b"1000", b"2000", b"2000"]


async def test_what_can_be_read_again_while_others_cannot_be_stored_is_not_lost(
    scene: Scene,
) -> None:
    await scene.send(after(1000, b"unreadable"), after(11_000, b"later"))
    await scene.settle()
    scene.clock.advance(SECOND)
    with scene.unreadable("message_at", lambda *_: True):
        await scene.settle()
    retried_at = scene.clock.monotonic_ns() + timers.UNREADABLE_MS * MILLISECOND
    scene.services.timers._retry_ms += 1  # just behind the time of the other
    scene.clock.advance(retried_at - scene.clock.monotonic_ns())
    failing = FailingPuts(scene.services, "T", names.SCHEDULE_TOPIC)
    await scene.services.timers.step()
    scene.clock.advance(2 * SECOND)
    await scene.services.timers.step()
    failing.mend()
    assert await scene.deliver() == [b"later", b"unreadable"]


async def test_what_is_new_and_cannot_be_read_holds_up_nothing_that_is_due(scene: Scene) -> None:
    await scene.send(after(1000, b"old"))
    await scene.settle()
    await scene.send(after(1000, b"new"))
    scene.clock.advance(SECOND)
    with scene.unreadable("read", lambda topic, *_: topic == names.TIMER_TOPIC):
        assert await scene.settle_timers() == scene.services.now_ms + timers.UNREADABLE_MS
    assert scene.bodies(1) == [b"old"]
    assert await scene.deliver() == [b"old", b"new"]


# --- restarts -------------------------------------------------------------------------------------


async def test_a_restart_delivers_neither_twice_nor_never(scene: Scene) -> None:
    await scene.send(*(after(ms, b"%d" % ms) for ms in (5000, 1000, 9000, 2000)))
    assert await scene.deliver(3 * SECOND) == [b"1000", b"2000"]
    scene.services.files.save(timers.FILE)
    await scene.send(after(100, b"late"))  # behind what was saved, though its time is near
    scene.crash()
    wanted = [b"1000", b"2000", b"late", b"5000", b"9000"]
    assert await scene.deliver(10 * SECOND) == wanted


async def test_a_crash_doubles_what_was_delivered_last(scene: Scene) -> None:
    await scene.send(after(1000, b"a"), after(2000, b"b"))
    await scene.deliver(SECOND)
    scene.services.files.save(timers.FILE)
    await scene.deliver(SECOND)
    scene.crash()
    assert await scene.deliver() == [b"a", b"b", b"b"]


async def test_a_delay_begins_when_the_message_is_stored(scene: Scene) -> None:
    draft = scene.services.publisher.divert(after(100, b"slow"))
    await scene.send(after(1000, b"quick"))
    await scene.deliver(SECOND)
    await scene.services.store.append(draft)
    scene.crash(timers.FILE)
    assert await scene.deliver() == [b"quick"]
    assert await scene.deliver(100 * MILLISECOND) == [b"quick", b"slow"]


async def test_a_crash_within_a_backlog(scene: Scene) -> None:
    count = 3 * timers.SLICE
    await scene.send(*(after(number // 100 + 1, b"%d" % number) for number in range(count)))
    scene.clock.advance(SECOND)
    while not scene.bodies(1):
        await scene.services.timers.step()
    assert len(scene.bodies(1)) == timers.SLICE
    scene.crash(timers.FILE)
    await scene.settle()
    assert {int(body) for body in scene.bodies(1)} == set(range(count))


async def test_what_is_saved_during_a_put_says_nothing_of_it(scene: Scene) -> None:
    await scene.send(after(1000))
    await scene.settle()
    scene.clock.advance(SECOND)
    FailingPuts(scene.services, "T", names.SCHEDULE_TOPIC)
    await scene.services.timers.step()
    scene.crash(timers.FILE)
    assert await scene.deliver() == [b"x"]


async def test_a_deleted_timer_topic_is_forgotten(scene: Scene) -> None:
    await scene.send(after(1000))
    await scene.settle()
    await scene.services.store.delete(names.TIMER_TOPIC)
    assert await scene.settle() == FAR
    await scene.send(after(1000, b"new"))
    assert await scene.deliver(SECOND) == [b"new"]


async def test_what_waits_is_held(scene: Scene) -> None:
    await scene.send(after(1000), after(2000))
    await scene.settle()
    topic = scene.services.store.topic(names.TIMER_TOPIC)
    scene.services.retention.adopt(topic)
    assert topic.groups[release.HOLDER] == topic.floor() == 0
    await scene.deliver(2 * SECOND)
    assert topic.floor() == 2


# --- recalls --------------------------------------------------------------------------------------

INVALID = "recall failed, timestamp invalid"


@pytest.fixture
def recalling(scene: Scene) -> Scene:
    """A broker that takes recalls."""
    scene.settings.recall_message_enable = True
    return scene


async def handle(scene: Scene, ms: int, body: bytes) -> str:
    """The handle of a message that waits."""
    draft = scene.services.publisher.divert(after(ms, body, UNIQ_KEY=f"id-{body.decode()}"))
    (placed,) = await scene.send(draft)
    return str(handle_of(draft, scene.services.settings.broker_name, placed.queue_offset))


async def recall(scene: Scene, handle: str, topic: str = "T") -> Command:
    fields = {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
    return await ask_later(scene.services, RequestCode.RECALL_MESSAGE, **fields)


def handle_v1(ms: int, message_id: str, topic: str = "T") -> str:
    """As the public RecallMessageHandle.HandleV1.buildHandle of Java's classes."""
    return base64.urlsafe_b64encode(f"v1 {topic} broker-a {ms} {message_id}".encode()).decode()


def changed(handle: str, **words: str) -> str:
    return str(Handle.parse(handle)._replace(**words))


async def test_only_what_is_recalled_is_not_delivered(recalling: Scene) -> None:
    handles = [await handle(recalling, 1000, body) for body in (b"a", b"b", b"c")]
    answer = await recall(recalling, handles[1])
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "id-b")
    assert (await recall(recalling, handles[1])).code == 0, "again"
    of_the_recall = changed(handles[1], offset="3")
    assert (await recall(recalling, of_the_recall)).code == 604
    assert await recalling.deliver(SECOND) == [b"a", b"c"]
    assert len(recalling.services.timers) == 0


async def test_a_handle_of_javas_is_of_all_with_that_id_in_that_second(recalling: Scene) -> None:
    now = recalling.services.now_ms
    for ms, body in ((60_000, b"a"), (60_000, b"b"), (60_400, b"a"), (90_000, b"a")):
        await handle(recalling, ms, body)
    answer = await recall(recalling, handle_v1(now + 60_001, "id-a"))
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "id-a")
    unpadded = handle_v1(now + 60_000, "id-a").rstrip("=")
    assert (await recall(recalling, unpadded)).code == 0
    for ms, message_id in ((now + 70_000, "id-a"), (now + 60_001, "id-c"), (1, "id-a")):
        answer = await recall(recalling, handle_v1(ms, message_id))
        assert (answer.code, answer.remark) == (604, INVALID)
    assert await recalling.deliver(100 * SECOND) == [b"b", b"a"]


async def test_a_recall_survives_a_crash(recalling: Scene) -> None:
    first, second = [await handle(recalling, ms, b"%d" % ms) for ms in (2000, 3000)]
    await recall(recalling, first)
    await recalling.settle()
    recalling.services.files.save(timers.FILE)
    await recall(recalling, second)
    recalling.crash()
    assert await recalling.deliver(5 * SECOND) == []
    assert len(recalling.services.timers) == 0


async def test_what_a_recall_that_failed_was_for_is_delivered(recalling: Scene) -> None:
    first, second = [await handle(recalling, 1000, body) for body in (b"a", b"b")]
    assert (await recall(recalling, second)).code == 0
    failing = FailingPuts(recalling.services, names.TIMER_TOPIC)
    for each in (first, second):
        with pytest.raises(StorageError, match="no space left"):
            await recall(recalling, each)
    failing.mend()
    assert await recalling.deliver(SECOND) == [b"a"], "the second one's recall was stored before"


async def test_a_recall_holds_when_the_systems_time_is_set(recalling: Scene) -> None:
    assert (await recall(recalling, await handle(recalling, 3_600_000, b"a"))).code == 0
    await recalling.deliver()
    recalling.set_time(2 * HOUR)
    await recalling.deliver()
    assert await recalling.deliver(HOUR) == []


async def test_recalls_of_what_is_gone_are_forgotten(recalling: Scene) -> None:
    for number in range(1100):
        found = await handle(recalling, 1000, b"%d" % number)
        if number % 2:
            await recall(recalling, found)
    recalling.clock.advance(SECOND)
    await recalling.settle()
    assert len(recalling.bodies(1)) == 550
    assert not recalling.services.timers._recalled


async def test_refusals_have_javas_words(recalling: Scene) -> None:
    found = await handle(recalling, 1000, b"a")
    short = base64.urlsafe_b64encode(b"v1 T broker-a 5").decode()
    for wrong, remark in (
        ("?", "recall handle is invalid"), (short, "recall handle is invalid"),
        (changed(found, version="v2"), "recall handle is invalid"),
        (changed(found, topic="U"), "recall failed, topic not match"),
        (changed(found, broker="b"), "recall failed, broker service not available"),
        (changed(found, offset="7"), INVALID), (changed(found, offset="x"), INVALID),
        (changed(found, message_id="other"), INVALID),
    ):  # fmt: skip
        answer = await recall(recalling, wrong)
        assert (answer.code, answer.remark) == (604, remark)
        assert answer.ext == {"MSG_REGION": "DefaultRegion"}
    assert (await recall(recalling, found, "none")).code == 17
    recalling.clock.advance(2 * SECOND)
    late = await recall(recalling, found)
    assert (late.code, late.remark) == (604, INVALID)
    assert await recalling.deliver() == [b"a"]


async def test_a_message_cannot_pass_for_a_recall(recalling: Scene) -> None:
    await handle(recalling, 1000, b"a")
    await recalling.send(after(1000, b"", TIMER_RECALLED="0"))
    assert await recalling.deliver(SECOND) == [b"a", b""]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("recall_message_enable", False, 16), ("broker_permission", 4, 14)],
)
async def test_a_broker_that_takes_no_recalls_says_so(
    recalling: Scene, name: str, value: object, code: int
) -> None:
    found = await handle(recalling, 1000, b"a")
    setattr(recalling.services.settings, name, value)
    assert (await recall(recalling, found)).code == code
