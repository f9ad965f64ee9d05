"""Open transactions are asked for, as often as it takes, and at last given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.core.units import HOUR, SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.broker.transactions import checks as module
from penstock.rocketmq.broker.transactions.checks import TransactionChecks
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored, until
from tests.unit.rocketmq.broker.peers import FakePeer, heartbeat

from .halves import COMMIT, ROLLBACK, begin, bodies, end, life, ops, settled

if TYPE_CHECKING:
    from penstock.rocketmq.broker.acl.check import Acl

CHECK = 39


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Lives:
    return Lives(tmp_path, clock)


@pytest.fixture
async def services(lives: Lives) -> AsyncIterator[Services]:
    services = await life(lives)
    yield services
    await services.transactions.close()
    lives.end()


@pytest.fixture
def checks(services: Services) -> TransactionChecks:
    return services.checks


def producer(services: Services, name: str = "p", group: str = "PG", key: str = "") -> FakePeer:
    """A producer that is connected."""
    peer = FakePeer()
    beat = Heartbeat.parse(heartbeat(name, producers=(group,)))
    member = Member(name, peer.connection, peer.address, Language.JAVA, 409, 0, key)
    services.clients.beat(beat, member)
    return peer


async def test_a_half_is_asked_for_when_it_is_old_enough(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peer = producer(services)
    half = await begin(services, b"x", queue=3)
    clock.advance(6 * SECOND - 1)
    await checks.check()
    assert peer.told == []
    clock.advance(1)
    await checks.check()
    (told,) = peer.told
    copy = stored(services, names.HALF_TOPIC)[-1]
    assert told.code == CHECK
    assert told.ext == {
        "tranStateTableOffset": "1", "commitLogOffset": str(copy.physical_offset),
        "msgId": "U", "transactionId": "U", "offsetMsgId": copy.offset_id,
    }  # fmt: skip
    message, _ = decode(told.body)
    assert (message.topic, message.queue, message.body) == ("T", 3, b"x")
    assert (message.queue_offset, message.physical_offset) == (1, copy.physical_offset)
    assert properties.value_of(message.properties, "TRANSACTION_CHECK_TIMES") == "1"
    assert settled(services) == (1, 0)
    await end(services, half._replace(queue_offset=1, physical_offset=copy.physical_offset), COMMIT)
    assert bodies(services, 3) == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, half, ROLLBACK)  # the offsets of the first half
    assert settled(services) == (2, 1)


async def test_a_transaction_that_ends_during_a_check_is_not_asked_for(
    services: Services,
    checks: TransactionChecks,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = producer(services)
    half = await begin(services)
    clock.advance(6 * SECOND)
    store = checks._store_all

    async def store_late(copies: Sequence[module._Copy]) -> None:
        await end(services, half, COMMIT)
        await store(copies)

    monkeypatch.setattr(checks, "_store_all", store_late)
    await checks.check()
    assert len(stored(services, names.HALF_TOPIC)) == 1
    assert peer.told == []
    assert settled(services) == (1, 1)


@pytest.mark.parametrize("by", [-HOUR, 100 * HOUR])
async def test_nobody_is_asked_later_or_given_up_when_the_systems_time_is_set(
    services: Services, checks: TransactionChecks, clock: FakeClock, by: int
) -> None:
    peer = producer(services)
    await begin(services, b"before")
    clock.set_wall(clock.wall_ns() + by)
    await begin(services, b"after")
    clock.advance(6 * SECOND - 1)
    await checks.check()
    assert peer.told == []
    clock.advance(1)
    await checks.check()
    assert len(peer.told) == 2
    assert stored(services, names.GIVEN_UP_HALF_TOPIC) == []


async def test_a_half_from_the_future_is_asked_for(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    """The system's time was set back while the broker was down."""
    await begin(services, b"x")
    await services.transactions.close()
    clock.set_wall(clock.wall_ns() - HOUR)
    services = await life(lives)
    peer = producer(services)
    await services.checks.check()
    assert len(peer.told) == 1
    await services.transactions.close()


async def test_what_has_ended_is_not_asked_for(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peer = producer(services)
    await begin(services)
    for how in (COMMIT, ROLLBACK):
        await end(services, await begin(services), how)
    clock.advance(7 * SECOND)
    await checks.check()
    assert [told.ext["tranStateTableOffset"] for told in peer.told] == ["3"]
    assert len(bodies(services)) == 1


async def test_producers_of_the_group_take_turns(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peers = [producer(services, name) for name in "ab"]
    other, deaf = producer(services, "c", "OTHER"), producer(services, "d")
    deaf.is_congested = True
    for _ in range(10):
        await begin(services)
    clock.advance(7 * SECOND)
    await checks.check()
    assert [len(peer.told) for peer in (*peers, other, deaf)] == [5, 5, 0, 0]


async def test_when_all_are_congested_it_waits(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    producer(services).is_congested = True
    await begin(services)
    clock.advance(7 * SECOND)
    await checks.check()
    assert len(stored(services, names.HALF_TOPIC)) == 1


async def test_without_a_producer_the_checks_are_counted(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    await begin(services)
    clock.advance(7 * SECOND)
    for times in (1, 2, 3):
        await checks.check()
        copy = stored(services, names.HALF_TOPIC)[-1]
        assert f"TRANSACTION_CHECK_TIMES\x01{times}\x02" in copy.properties
        assert copy.queue_offset == times
        assert settled(services) == (times, 0)


async def test_after_so_many_checks_it_is_given_up(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    services.settings.transaction_check_max = 3
    peer = producer(services)
    half = await begin(services)
    clock.advance(7 * SECOND)
    for _ in range(5):
        await checks.check()
    assert len(peer.told) == 3
    (given_up,) = stored(services, names.GIVEN_UP_HALF_TOPIC)
    assert given_up.body == b"x"
    assert ops(services) == [(b"3", "give up")]
    assert settled(services) == (4, 1)
    await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]


async def test_what_is_older_than_messages_are_kept_is_given_up(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peer = producer(services)
    await begin(services)
    clock.advance(73 * HOUR)
    await checks.check()
    assert peer.told == []
    assert len(stored(services, names.GIVEN_UP_HALF_TOPIC)) == 1


async def test_a_message_may_ask_for_more_time(
    services: Services,
    checks: TransactionChecks,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = producer(services)
    await begin(services, CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    await begin(services)
    clock.advance(7 * SECOND)
    await checks.check()
    assert [told.ext["tranStateTableOffset"] for told in peer.told] == ["2"]
    assert settled(services) == (None, None)  # it holds up the others, which is of no matter
    monkeypatch.setattr(module, "IMMUNE_WINDOW", 2)
    await checks.check()  # now it is, so it is stored behind them, and not counted
    copies = [m for m in stored(services, names.HALF_TOPIC) if "IMMUNITY" in m.properties]
    assert [("CHECK_TIMES" in m.properties) for m in copies] == [False, False]
    assert settled(services)[0] == 3
    clock.advance(94 * SECOND)
    peer.told.clear()
    await checks.check()
    assert len(peer.told) == 2


@pytest.mark.parametrize("hours", [-100, 100])
async def test_the_clocks_of_producers_do_not_matter(
    services: Services, checks: TransactionChecks, clock: FakeClock, hours: int
) -> None:
    peer = producer(services)
    await begin(services, born_ms=services.now_ms + hours * 3600 * 1000)
    clock.advance(5 * SECOND)
    await checks.check()
    assert peer.told == []
    clock.advance(SECOND)
    await checks.check()
    await checks.check()
    assert len(peer.told) == 2


async def test_what_is_open_is_held(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    half = await begin(services)
    await begin(services)
    topic = services.store.topic(names.HALF_TOPIC)
    services.retention.adopt(topic)
    await checks.check()
    assert topic.floor() == 0
    await end(services, half, COMMIT)
    assert topic.floor() == 1


async def test_an_outcome_during_a_check_waits_for_it(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    """The copy of a half is never an open transaction beside one that has ended."""
    producer(services)
    half = await begin(services)
    clock.advance(7 * SECOND)
    hanging = FailingPuts(services, names.HALF_TOPIC, hang=True)
    checking = spawn(checks.check(), "check")
    await until(lambda: hanging.count)
    ending = spawn(end(services, half, COMMIT), "end")
    await asyncio.sleep(0.01)
    assert ops(services) == []
    checking.cancel()
    await ending
    assert bodies(services) == [b"x"]


async def test_a_full_disk_leaves_all_as_it_was(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peer = producer(services)
    await begin(services)
    clock.advance(7 * SECOND)
    failing = FailingPuts(services, names.HALF_TOPIC)
    with pytest.raises(Exception, match="no space left"):
        await checks.check()
    assert peer.told == []
    failing.mend()
    await checks.check()
    assert len(peer.told) == 1


async def test_many_at_once_are_asked_for_once_each(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    peer = producer(services)
    for _ in range(300):
        await begin(services)
    clock.advance(7 * SECOND)
    await checks.check()
    assert {told.ext["tranStateTableOffset"] for told in peer.told} == {
        str(offset) for offset in range(300, 600)
    }
    assert settled(services) == (300, 0)


# --- with a real broker ---------------------------------------------------------------------------


async def test_only_who_might_have_sent_the_message_is_asked(
    services: Services, checks: TransactionChecks, clock: FakeClock
) -> None:
    """A check shows the message, and any client may claim to belong to the group."""
    spy, owner = producer(services, "spy", key="else"), producer(services, "owner", key="mine")

    def may_publish(address: str, access_key: str, topic: str) -> bool:
        return (address, access_key, topic) == (owner.address, "mine", "T")

    checks._acl = cast("Acl", SimpleNamespace(may_publish=may_publish))
    for _ in range(4):
        await begin(services)
    clock.advance(7 * SECOND)
    await checks.check()
    assert [len(peer.told) for peer in (spy, owner)] == [0, 4]
