"""Where messages go that wait first, what puts them where they belong, and the clockwork for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import due_loop, release
from penstock.rocketmq.broker.delays.due_loop import FAR, DueLoop
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.filling import FailingPuts, store, stored, until

from .conftest import Scene, after, delayed


def test_a_message_with_a_level_goes_to_the_queue_of_its_level(services: Services) -> None:
    draft = services.publisher.divert(delayed(3))
    assert (draft.topic, draft.queue) == (names.SCHEDULE_TOPIC, 2)
    found = properties.parse(draft.properties)
    assert found == {"KEYS": "k", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "1"}
    for level in (99, (1 << 31) - 1):
        last = services.publisher.divert(delayed(level))
        assert (last.queue, properties.value_of(last.properties, "DELAY")) == (17, "18")
    both = services.publisher.divert(delayed(1, TIMER_DELAY_SEC="5"))
    assert both.topic == names.SCHEDULE_TOPIC, "a level comes before a time"
    assert "TIMER" not in both.properties
    committed = services.publisher.divert(replace(delayed(1), sys_flag=8))
    assert committed.topic == names.SCHEDULE_TOPIC


async def test_a_publish_without_a_task_waits_as_well(services: Services) -> None:
    placed: list[Placed] = []

    def done(places: list[Placed], error: StorageError | None) -> None:
        assert error is None
        placed.extend(places)

    for text in ("", "DELAY\x013\x02"):
        services.publisher.publish((Draft("T", 0, b"x", text),), done)
    for topic, queue in (("T", 0), (names.SCHEDULE_TOPIC, 2)):
        assert services.store.bounds(topic, queue) == (0, 1)
    assert len(placed) == 2


@pytest.mark.parametrize(
    "draft",
    [Draft("T", 0, b"x", "KEYS\x01k\x02"), Draft("T", 0, b"x", "MODEL\x01k\x02"), delayed(0),
     delayed(-1), delayed(-1 << 31), replace(delayed(1), sys_flag=4),
     replace(delayed(1), sys_flag=12), replace(delayed(1), topic=names.HALF_TOPIC),
     replace(delayed(1), topic=names.SCHEDULE_TOPIC)],
)  # fmt: skip
def test_all_others_stay_what_they_are(services: Services, draft: Draft) -> None:
    assert services.publisher.divert(draft) is draft


def test_what_is_no_level_is_refused(services: Services) -> None:
    for level in ("soon", 1 << 31, "1" * 5000):
        with pytest.raises(BodyError, match="DELAY is not a number"):
            services.publisher.divert(delayed(level))
    with pytest.raises(RefusedError, match="longer than"):
        services.publisher.divert(delayed(1, more="v" * 32700))


# --- put where they belong ------------------------------------------------------------------------


async def test_a_message_goes_to_its_topic_with_all_its_properties(services: Services) -> None:
    kept = {"REAL_TOPIC": "T", "REAL_QID": "2", "DELAY": "4"}
    await store(services, names.SCHEDULE_TOPIC, 3, b"x", **kept)
    (waiting,) = stored(services, names.SCHEDULE_TOPIC, 3)
    draft = release.released(services.topics, waiting)
    assert draft is not None
    assert (draft.topic, draft.queue, draft.body) == ("T", 2, b"x")
    assert properties.parse(draft.properties) == kept
    with pytest.raises(RefusedError, match="longer than"):
        release.moved(draft, "U", 0, {"k": "v" * release.PROPERTIES_MAX})


@pytest.mark.parametrize(
    "found",
    [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "x"},
     {"REAL_TOPIC": "gone", "REAL_QID": "0"}],
)  # fmt: skip
async def test_what_belongs_nowhere_is_dropped(services: Services, found: dict[str, str]) -> None:
    await store(services, names.SCHEDULE_TOPIC, 0, b"x", **found)
    (waiting,) = stored(services, names.SCHEDULE_TOPIC)
    assert release.released(services.topics, waiting) is None


async def test_one_put_for_each_queue_in_order(services: Services) -> None:
    puts: list[int] = []
    put = services.store.put
    services.store.put = lambda drafts, done: (puts.append(len(drafts)), put(drafts, done))[1]  # type: ignore[method-assign]
    drafts = [Draft("TU"[n % 2], n % 4, b"%d" % n) for n in range(16)]
    assert await release.put_all(services.store, drafts) == ([], None)
    assert puts == [4, 4, 4, 4]
    assert [m.body for m in stored(services, "T", 2)] == [b"2", b"6", b"10", b"14"]
    assert await release.put_all(services.store, []) == ([], None)


async def test_what_could_not_be_stored_is_given_back(services: Services) -> None:
    failing = FailingPuts(services, "U")
    drafts = [Draft("T", 0, b"a"), Draft("U", 0, b"b"), Draft("T", 0, b"c")]
    left, error = await release.put_all(services.store, drafts)
    assert left == [drafts[1]]
    assert "no space left" in str(error)
    failing.mend()
    assert await release.put_all(services.store, left) == ([], None)
    assert [m.body for m in stored(services, "T")] == [b"a", b"c"]


async def test_what_cannot_wait_once_more_is_given_back(services: Services) -> None:
    more = f"{properties.DELAY}{properties.NAME_END}9{properties.VALUE_END}k{properties.NAME_END}"
    long = Draft("U", 0, b"a", more + "v" * (release.PROPERTIES_MAX - len(more) - 1))
    both = [long, Draft("U", 0, b"b", "DELAY\x011\x02")]
    assert await release.put_off(services.store, services.levels, both, None) == [long]
    assert [m.body for m in stored(services, names.SCHEDULE_TOPIC, 1)] == [b"b"]
    FailingPuts(services, names.SCHEDULE_TOPIC)
    assert await release.put_off(services.store, services.levels, both, None) == both


@pytest.mark.parametrize(
    ("topic", "named", "real"),
    [(names.SCHEDULE_TOPIC, {"REAL_TOPIC": "T", "REAL_QID": "2"}, "T"),
     (names.SCHEDULE_TOPIC, {}, names.SCHEDULE_TOPIC), ("U", {"REAL_TOPIC": "T"}, "U")],
)  # fmt: skip
async def test_the_topic_that_a_message_is_for(
    services: Services, topic: str, named: dict[str, str], real: str
) -> None:
    await store(services, topic, 0, b"x", **named)
    assert release.real_topic(stored(services, topic)[0]) == real


async def test_what_says_neither_time_nor_topic_holds_nothing_up(scene: Scene) -> None:
    for topic in (names.TIMER_TOPIC, names.SCHEDULE_TOPIC):
        await store(scene.services, topic, 0, b"lost")
    await scene.send(after(1000), delayed(1))
    assert await scene.deliver(SECOND) == [b"x", b"x"]


@pytest.mark.parametrize(
    ("part", "value"),
    [("timers", []), ("timers", {}), ("timers", {"low": 1, "read": 2}),
     ("timers", {"low": 1, "read": -2, "deliveredMs": 1}), ("schedule", []), ("schedule", {}),
     ("schedule", {"offsetTable": 3}), ("schedule", {"offsetTable": {"1": "x"}}),
     ("schedule", {"offsetTable": {"1": -1}})],
)  # fmt: skip
def test_damaged_progress_is_refused(services: Services, part: str, value: object) -> None:
    with pytest.raises(BodyError):
        getattr(services, part).load(value)


# --- the clockwork --------------------------------------------------------------------------------


def now_ms() -> int:
    return SYSTEM_CLOCK.wall_ns() // MILLISECOND


class Work:
    """Steps that note when they are called, and a file that notes who wrote it."""

    def __init__(self, *deadlines: int) -> None:
        self.deadlines = list(deadlines)
        self.called: list[int] = []
        self.saves: list[int] = []
        self.loop = DueLoop("test", SYSTEM_CLOCK, now_ms, self.step, self.save)

    async def step(self) -> int:
        self.called.append(now_ms())
        return self.deadlines.pop(0) if self.deadlines else FAR

    async def save(self) -> None:
        self.saves.append(now_ms())


async def test_it_sleeps_until_a_deadline_and_not_less() -> None:
    due = now_ms() + 60
    work = Work(due)
    work.loop.start()
    await until(lambda: len(work.called) >= 2)
    assert work.called[1] >= due
    await asyncio.sleep(0.03)
    assert len(work.called) == 2  # the next one never comes
    await work.loop.close()


async def test_it_is_woken_for_an_earlier_deadline() -> None:
    work = Work()
    work.loop.start()
    await until(lambda: work.called)
    work.loop.wake()
    await until(lambda: len(work.called) == 2)
    await work.loop.close()
    assert len(work.called) <= 3


async def test_a_wake_during_a_step_is_not_lost() -> None:
    work = Work()
    step = work.loop._step

    async def waking() -> int:
        if not work.called:
            work.loop.wake()
        return await step()

    work.loop._step = waking
    work.loop.start()
    await until(lambda: len(work.called) == 2)
    await work.loop.close()


async def test_others_have_their_turn_between_steps() -> None:
    work = Work(*[0] * 1000)
    work.loop.start()
    turns = 0
    while len(work.called) < 1000:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 900
    await work.loop.close()


@pytest.mark.parametrize("error", [StorageError("disk is gone"), ValueError("a bug")])
@pytest.mark.parametrize("part", ["step", "save"])
async def test_what_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str, error: Exception
) -> None:
    monkeypatch.setattr(due_loop, "RETRY_MS", 5)
    work, tries = Work(), []

    async def failing() -> Any:
        tries.append(now_ms())
        if len(tries) == 1:
            raise error
        return FAR

    if part == "step":
        loop = DueLoop("test", SYSTEM_CLOCK, now_ms, failing, work.save)
        loop.start()
    else:
        loop = DueLoop("test", SYSTEM_CLOCK, now_ms, work.step, failing)
        loop.changed()
    await until(lambda: len(tries) == 2)
    assert str(error) in caplog.text
    await loop.close()


async def test_progress_is_saved_soon_and_not_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_loop, "_SAVE_REST_NS", SECOND // 2)
    work = Work()
    work.loop.start()
    for _ in range(50):
        work.loop.changed()
        await asyncio.sleep(0)
    await until(lambda: work.saves)
    assert len(work.saves) == 1
    await work.loop.close()


async def test_closing_lets_a_step_come_to_its_end() -> None:
    ended = []
    going = asyncio.Event()

    async def slow() -> int:
        going.set()
        await asyncio.sleep(0.05)
        ended.append(True)
        return FAR

    loop = DueLoop("test", SYSTEM_CLOCK, now_ms, slow, Work().save)
    loop.start()
    await going.wait()
    await loop.close()
    assert ended == [True]
