"""Messages that are taken back before their time."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import timers
from penstock.rocketmq.broker.delays.recalls import Handle, handle_of
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives
from tests.unit.rocketmq.broker.peers import FakePeer, answered_later, request

from .test_timers import after, bodies, deliver, settle

RECALL = 370
PEER = FakePeer().connection


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Iterator[Lives]:
    lives = Lives(tmp_path, clock)
    lives.settings.recall_message_enable = True
    yield lives
    lives.end()


@pytest.fixture
def services(lives: Lives) -> Services:
    return lives.begin("T", "U")


async def sent(services: Services, ms: int, body: bytes) -> str:
    """The handle of a message that waits."""
    draft = services.publisher.divert(after(ms, body, UNIQ_KEY=f"id-{body.decode()}"))
    placed = await services.publisher.publish_one(draft)
    return str(handle_of(draft, services.settings.broker_name, placed.queue_offset))


async def recall(services: Services, handle: str, topic: str = "T") -> Command:
    asked = request(RECALL, producerGroup="PG", topic=topic, recallHandle=handle)
    return await answered_later(services, PEER, asked)


async def test_only_what_is_recalled_is_not_delivered(services: Services, clock: FakeClock) -> None:
    handles = [await sent(services, 1000, body) for body in (b"a", b"b", b"c")]
    answer = await recall(services, handles[1])
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "id-b")
    assert (await recall(services, handles[1])).code == 0, "again"
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"a", b"c"]
    assert len(services.timers) == 0


def handle_v1(ms: int, message_id: str, topic: str = "T") -> str:
    """As the public RecallMessageHandle.HandleV1.buildHandle of Java's classes."""
    return base64.urlsafe_b64encode(f"v1 {topic} broker-a {ms} {message_id}".encode()).decode()


async def test_a_handle_of_javas_is_of_all_with_that_id_in_that_second(
    services: Services, clock: FakeClock
) -> None:
    now = services.now_ms
    for ms, body in ((60_000, b"a"), (60_000, b"b"), (60_400, b"a"), (90_000, b"a")):
        await sent(services, ms, body)
    answer = await recall(services, handle_v1(now + 60_001, "id-a"))
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "id-a")
    assert (await recall(services, handle_v1(now + 60_000, "id-a").rstrip("="))).code == 0
    for wrong in (
        handle_v1(now + 70_000, "id-a"), handle_v1(now + 60_001, "id-c"), handle_v1(1, "id-a"),
    ):  # fmt: skip
        refused = await recall(services, wrong)
        assert (refused.code, refused.remark) == (604, "recall failed, timestamp invalid")
    clock.advance(100 * SECOND)
    await settle(services)
    assert bodies(services) == [b"b", b"a"]


async def test_a_recall_survives_a_crash(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    first, second = [await sent(services, ms, b"%d" % ms) for ms in (2000, 3000)]
    await recall(services, first)
    await settle(services)
    services.files.save(timers.FILE)
    await recall(services, second)
    services = lives.begin("T")
    clock.advance(5 * SECOND)
    await settle(services)
    assert bodies(services) == []
    assert len(services.timers) == 0


async def test_what_a_recall_that_failed_was_for_is_delivered(
    services: Services, clock: FakeClock
) -> None:
    first, second = [await sent(services, 1000, body) for body in (b"a", b"b")]
    assert (await recall(services, second)).code == 0
    failing = FailingPuts(services, names.TIMER_TOPIC)
    for handle in (first, second):
        with pytest.raises(StorageError, match="no space left"):
            await recall(services, handle)
    failing.mend()
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"a"], "the second one's recall was stored before"


async def test_a_recall_holds_when_the_systems_time_is_set(
    services: Services, clock: FakeClock
) -> None:
    handle = await sent(services, 3_600_000, b"a")
    assert (await recall(services, handle)).code == 0
    await deliver(services)
    clock.set_wall(clock.wall_ns() + 7_200 * SECOND)
    await deliver(services)
    clock.advance(3_600 * SECOND)
    await deliver(services)
    assert bodies(services) == []


async def test_recalls_of_what_is_gone_are_forgotten(services: Services, clock: FakeClock) -> None:
    for number in range(1100):
        handle = await sent(services, 1000, b"%d" % number)
        if number % 2:
            await recall(services, handle)
    clock.advance(SECOND)
    await settle(services)
    assert len(bodies(services)) == 550
    assert not services.timers._recalled


def changed(handle: str, **words: str) -> str:
    return str(Handle.parse(handle)._replace(**words))


async def test_refusals_have_javas_words(services: Services, clock: FakeClock) -> None:
    handle = await sent(services, 1000, b"a")
    short = base64.urlsafe_b64encode(b"v1 T broker-a 5").decode()
    for wrong, remark in (
        ("?", "recall handle is invalid"), (short, "recall handle is invalid"),
        (changed(handle, version="v2"), "recall handle is invalid"),
        (changed(handle, topic="U"), "recall failed, topic not match"),
        (changed(handle, broker="b"), "recall failed, broker service not available"),
        (changed(handle, offset="7"), "recall failed, timestamp invalid"),
        (changed(handle, offset="x"), "recall failed, timestamp invalid"),
        (changed(handle, message_id="other"), "recall failed, timestamp invalid"),
    ):  # fmt: skip
        answer = await recall(services, wrong)
        assert (answer.code, answer.remark) == (604, remark)
        assert answer.ext == {"MSG_REGION": "DefaultRegion"}
    assert (await recall(services, handle, "none")).code == 17
    clock.advance(2 * SECOND)
    late = await recall(services, handle)
    assert (late.code, late.remark) == (604, "recall failed, timestamp invalid")
    await settle(services)
    assert bodies(services) == [b"a"]


async def test_the_recall_of_a_recall_is_refused(services: Services) -> None:
    handle = await sent(services, 1000, b"a")
    await recall(services, handle)
    answer = await recall(services, changed(handle, offset="1"))
    assert answer.code == 604


async def test_a_message_cannot_pass_for_a_recall(services: Services, clock: FakeClock) -> None:
    await sent(services, 1000, b"a")
    await services.publisher.publish_one(after(1000, b"", TIMER_RECALLED="0"))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"a", b""]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("recall_message_enable", False, 16), ("broker_permission", 4, 14)],
)
async def test_a_broker_that_takes_no_recalls_says_so(
    services: Services, name: str, value: object, code: int
) -> None:
    handle = await sent(services, 1000, b"a")
    setattr(services.settings, name, value)
    assert (await recall(services, handle)).code == code


def test_a_message_without_an_id_has_a_handle_all_the_same(services: Services) -> None:
    draft: Draft = services.publisher.divert(after(1000))
    assert draft.topic == names.TIMER_TOPIC
    assert handle_of(draft, "broker-a", 5)[4:] == ("null", "5")
