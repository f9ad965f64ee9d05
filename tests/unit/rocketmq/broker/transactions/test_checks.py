"""Open transactions are asked for, as often as it takes, and at last given up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import HOUR, SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.broker.transactions import checks as module
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode
from tests.unit.rocketmq.broker.filling import FailingPuts, until
from tests.unit.rocketmq.broker.peers import FakePeer, heartbeat

from .conftest import COMMIT, ROLLBACK, Scene


def producer(scene: Scene, name: str = "p", group: str = "PG", key: str = "") -> FakePeer:
    """A producer that is connected."""
    peer = FakePeer()
    beat = Heartbeat.parse(heartbeat(name, producers=(group,)))
    member = Member(name, peer.connection, peer.address, Language.JAVA, 409, 0, key)
    scene.services.clients.beat(beat, member)
    return peer


async def check(scene: Scene, ns: int = 0) -> None:
    """A round of checks when this time has passed."""
    scene.clock.advance(ns)
    await scene.services.checks.check()


def asked(peer: FakePeer) -> list[str]:
    """The halves that a producer was asked for."""
    return [told.ext["tranStateTableOffset"] for told in peer.told]


async def test_a_half_is_asked_for_when_it_is_old_enough(scene: Scene) -> None:
    peer = producer(scene)
    half = await scene.begin(b"x", queue=3)
    await check(scene, 6 * SECOND - 1)
    assert peer.told == []
    await check(scene, 1)
    (told,) = peer.told
    copy = scene.halves()[-1]
    assert told.code == RequestCode.CHECK_TRANSACTION_STATE
    assert told.ext == {
        "tranStateTableOffset": "1", "commitLogOffset": str(copy.physical_offset),
        "msgId": "U", "transactionId": "U", "offsetMsgId": copy.offset_id,
    }  # fmt: skip
    message, _ = decode(told.body)
    assert (message.topic, message.queue, message.body) == ("T", 3, b"x")
    assert (message.queue_offset, message.physical_offset) == (1, copy.physical_offset)
    assert properties.value_of(message.properties, "TRANSACTION_CHECK_TIMES") == "1"
    assert scene.settled == (1, 0)
    newest = half._replace(queue_offset=1, physical_offset=copy.physical_offset)
    await scene.end(newest, COMMIT)
    assert scene.bodies(3) == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(half, ROLLBACK)  # the offsets of the first half
    assert scene.settled == (2, 1)


async def test_a_transaction_that_ends_during_a_check_is_not_asked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, half = producer(scene), await scene.begin()
    checks = scene.services.checks
    store = checks._store_all

    async def store_late(copies: Sequence[module._Copy]) -> None:
        await scene.end(half, COMMIT)
        await store(copies)

    monkeypatch.setattr(checks, "_store_all", store_late)
    await check(scene, 6 * SECOND)
    assert (len(scene.halves()), peer.told, scene.settled) == (1, [], (1, 1))


@pytest.mark.parametrize("by", [-HOUR, 100 * HOUR])
async def test_nobody_is_asked_later_or_given_up_when_the_systems_time_is_set(
    scene: Scene, by: int
) -> None:
    peer = producer(scene)
    await scene.begin(b"before")
    scene.set_time(by)
    await scene.begin(b"after")
    await check(scene, 6 * SECOND - 1)
    assert peer.told == []
    await check(scene, 1)
    assert (len(peer.told), scene.given_up) == (2, [])


async def test_a_half_from_the_future_is_asked_for(scene: Scene) -> None:
    """The system's time was set back while the broker was down."""
    await scene.begin(b"x")
    scene.set_time(-HOUR)
    await scene.crash()
    peer = producer(scene)
    await check(scene)
    assert len(peer.told) == 1


async def test_what_has_ended_is_not_asked_for(scene: Scene) -> None:
    peer = producer(scene)
    await scene.begin()
    for how in (COMMIT, ROLLBACK):
        await scene.end(await scene.begin(), how)
    await check(scene, 7 * SECOND)
    assert asked(peer) == ["3"]
    assert len(scene.bodies()) == 1


async def test_producers_of_the_group_take_turns(scene: Scene) -> None:
    peers = [producer(scene, name) for name in "ab"]
    other, deaf = producer(scene, "c", "OTHER"), producer(scene, "d")
    deaf.is_congested = True
    for _ in range(10):
        await scene.begin()
    await check(scene, 7 * SECOND)
    assert [len(peer.told) for peer in (*peers, other, deaf)] == [5, 5, 0, 0]


async def test_when_all_are_congested_it_waits(scene: Scene) -> None:
    producer(scene).is_congested = True
    await scene.begin()
    await check(scene, 7 * SECOND)
    assert len(scene.halves()) == 1


async def test_without_a_producer_the_checks_are_counted(scene: Scene) -> None:
    await scene.begin()
    scene.clock.advance(7 * SECOND)
    for times in (1, 2, 3):
        await check(scene)
        copy = scene.halves()[-1]
        assert f"TRANSACTION_CHECK_TIMES\x01{times}\x02" in copy.properties
        assert copy.queue_offset == times
        assert scene.settled == (times, 0)


async def test_after_so_many_checks_it_is_given_up(scene: Scene) -> None:
    scene.services.settings.transaction_check_max = 3
    peer, half = producer(scene), await scene.begin()
    scene.clock.advance(7 * SECOND)
    for _ in range(5):
        await check(scene)
    assert len(peer.told) == 3
    assert [message.body for message in scene.given_up] == [b"x"]
    assert scene.ops == [(b"3", "give up")]
    assert scene.settled == (4, 1)
    await scene.end(half, COMMIT)
    assert scene.bodies() == [b"x"]


async def test_what_is_older_than_messages_are_kept_is_given_up(scene: Scene) -> None:
    peer = producer(scene)
    await scene.begin()
    await check(scene, 73 * HOUR)
    assert (peer.told, len(scene.given_up)) == ([], 1)


async def test_a_message_may_ask_for_more_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = producer(scene)
    await scene.begin(CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    await scene.begin()
    await check(scene, 7 * SECOND)
    assert asked(peer) == ["2"]
    assert scene.settled == (None, None)  # it holds up the others, which is of no matter
    monkeypatch.setattr(module, "IMMUNE_WINDOW", 2)
    await check(scene)  # now it is, so it is stored behind them, and not counted
    copies = [m for m in scene.halves() if "IMMUNITY" in m.properties]
    assert [("CHECK_TIMES" in m.properties) for m in copies] == [False, False]
    assert scene.settled[0] == 3
    peer.told.clear()
    await check(scene, 94 * SECOND)
    assert len(peer.told) == 2


@pytest.mark.parametrize("hours", [-100, 100])
async def test_the_clocks_of_producers_do_not_matter(scene: Scene, hours: int) -> None:
    peer = producer(scene)
    await scene.begin(born_ms=scene.services.now_ms + hours * 3600 * 1000)
    await check(scene, 5 * SECOND)
    assert peer.told == []
    await check(scene, SECOND)
    await check(scene)
    assert len(peer.told) == 2


async def test_what_is_open_is_held(scene: Scene) -> None:
    half, _ = await scene.begin(), await scene.begin()
    topic = scene.services.store.topic(names.HALF_TOPIC)
    scene.services.retention.adopt(topic)
    await check(scene)
    assert topic.floor() == 0
    await scene.end(half, COMMIT)
    assert topic.floor() == 1


async def test_an_outcome_during_a_check_waits_for_it(scene: Scene) -> None:
    """The copy of a half is never an open transaction beside one that has ended."""
    producer(scene)
    half = await scene.begin()
    scene.clock.advance(7 * SECOND)
    hanging = FailingPuts(scene.services, names.HALF_TOPIC, hang=True)
    checking = spawn(check(scene), "check")
    await until(lambda: hanging.count)
    ending = spawn(scene.end(half, COMMIT), "end")
    await asyncio.sleep(0.01)
    assert scene.ops == []
    checking.cancel()
    await ending
    assert scene.bodies() == [b"x"]


async def test_a_full_disk_leaves_all_as_it_was(scene: Scene) -> None:
    peer = producer(scene)
    await scene.begin()
    failing = FailingPuts(scene.services, names.HALF_TOPIC)
    with pytest.raises(Exception, match="no space left"):
        await check(scene, 7 * SECOND)
    assert peer.told == []
    failing.mend()
    await check(scene)
    assert len(peer.told) == 1


async def test_checks_go_on_whatever_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Exception | None] = [StorageError("the disk"), ValueError("a mistake"), None]

    async def failing() -> None:
        if (error := outcomes.pop(0) if outcomes else None) is not None:
            raise error

    monkeypatch.setattr(module, "INTERVAL_S_MIN", 0.001)
    monkeypatch.setattr(scene.services.checks, "check", failing)
    scene.services.settings.transaction_check_interval = 1
    scene.services.checks.start()
    await until(lambda: not outcomes)
    await scene.services.checks.close()
    assert caplog.text.count("checking transactions failed, trying again") == 2


async def test_many_at_once_are_asked_for_once_each(scene: Scene) -> None:
    peer = producer(scene)
    for _ in range(300):
        await scene.begin()
    await check(scene, 7 * SECOND)
    assert sorted(map(int, asked(peer))) == list(range(300, 600))
    assert scene.settled == (300, 0)


async def test_only_who_might_have_sent_the_message_is_asked(scene: Scene) -> None:
    """A check shows the message, and any client may claim to belong to the group."""
    spy, owner = producer(scene, "spy", key="else"), producer(scene, "owner", key="mine")

    def may_publish(address: str, access_key: str, topic: str) -> bool:
        return (address, access_key, topic) == (owner.address, "mine", "T")

    scene.services.checks._acl = cast(Acl, SimpleNamespace(may_publish=may_publish))
    for _ in range(4):
        await scene.begin()
    await check(scene, 7 * SECOND)
    assert [len(peer.told) for peer in (spy, owner)] == [0, 4]
