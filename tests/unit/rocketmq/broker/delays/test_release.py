"""Messages that waited are put again where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored


@pytest.fixture
def services(tmp_path: Path, clock: FakeClock) -> Iterator[Services]:
    lives = Lives(tmp_path, clock)
    yield lives.begin("A", "B")
    lives.end()


async def test_a_message_goes_to_its_topic_with_all_its_properties(services: Services) -> None:
    await store(services, names.SCHEDULE_TOPIC, 3, b"x", REAL_TOPIC="A", REAL_QID="2", DELAY="4")
    draft = release.released(services.topics, stored(services, names.SCHEDULE_TOPIC, 3)[0])
    assert draft is not None
    assert (draft.topic, draft.queue, draft.body) == ("A", 2, b"x")
    assert properties.parse(draft.properties) == {"REAL_TOPIC": "A", "REAL_QID": "2", "DELAY": "4"}


@pytest.mark.parametrize(
    "found",
    [{}, {"REAL_TOPIC": "A"}, {"REAL_TOPIC": "A", "REAL_QID": "x"},
     {"REAL_TOPIC": "gone", "REAL_QID": "0"}],
)  # fmt: skip
async def test_what_belongs_nowhere_is_dropped(services: Services, found: dict[str, str]) -> None:
    await store(services, names.SCHEDULE_TOPIC, 0, b"x", **found)
    assert release.released(services.topics, stored(services, names.SCHEDULE_TOPIC)[0]) is None


async def test_one_put_for_each_queue_in_order(services: Services) -> None:
    puts: list[int] = []
    put = services.store.put
    services.store.put = lambda drafts, done: (puts.append(len(drafts)), put(drafts, done))[1]  # type: ignore[method-assign]
    drafts = [Draft("AB"[n % 2], n % 4, b"%d" % n) for n in range(16)]
    assert await release.put_all(services.store, drafts) == ([], None)
    assert puts == [4, 4, 4, 4]
    assert [m.body for m in stored(services, "A", 2)] == [b"2", b"6", b"10", b"14"]
    assert await release.put_all(services.store, []) == ([], None)


async def test_what_could_not_be_stored_is_given_back(services: Services) -> None:
    failing = FailingPuts(services, "B")
    drafts = [Draft("A", 0, b"a"), Draft("B", 0, b"b"), Draft("A", 0, b"c")]
    left, error = await release.put_all(services.store, drafts)
    assert left == [drafts[1]]
    assert "no space left" in str(error)
    failing.mend()
    assert await release.put_all(services.store, left) == ([], None)
    assert [m.body for m in stored(services, "A")] == [b"a", b"c"]


async def test_what_cannot_wait_once_more_is_given_back(services: Services) -> None:
    more = f"{properties.DELAY}{properties.NAME_END}9{properties.VALUE_END}k{properties.NAME_END}"
    long = Draft("B", 0, b"a", more + "v" * (release.PROPERTIES_MAX - len(more) - 1))
    short = Draft("B", 0, b"b", "DELAY\x011\x02")
    assert await release.put_off(services.store, services.levels, [long, short], None) == [long]
    assert [m.body for m in stored(services, names.SCHEDULE_TOPIC, 1)] == [b"b"]
    FailingPuts(services, names.SCHEDULE_TOPIC)
    assert await release.put_off(services.store, services.levels, [long, short], None) == [
        long,
        short,
    ]


def test_properties_that_become_too_long_are_refused() -> None:
    draft = Draft("A", 0, b"x")
    with pytest.raises(RefusedError, match="longer than"):
        release.moved(draft, "B", 0, {"k": "v" * release.PROPERTIES_MAX})


async def test_held_messages_outlive_retention(services: Services) -> None:
    await store(services, names.SCHEDULE_TOPIC, 0, *[b"x"] * 10)
    topic = services.store.topic(names.SCHEDULE_TOPIC)
    release.hold(topic, 4)
    services.retention.adopt(topic)
    assert topic.floor() == 4
    release.hold(None, 4)


async def test_the_topic_that_a_message_is_for(services: Services) -> None:
    await store(services, names.SCHEDULE_TOPIC, 3, b"x", REAL_TOPIC="A", REAL_QID="2")
    await store(services, names.SCHEDULE_TOPIC, 4, b"x")
    await store(services, "B", 0, b"x", REAL_TOPIC="A")
    found = [
        release.real_topic(stored(services, topic, queue)[0])
        for topic, queue in ((names.SCHEDULE_TOPIC, 3), (names.SCHEDULE_TOPIC, 4), ("B", 0))
    ]
    assert found == ["A", names.SCHEDULE_TOPIC, "B"]
