"""How transactions end: what is checked, what is answered, what is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.transactions import ending
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored, until
from tests.unit.rocketmq.broker.peers import answered_later, request

from .halves import (
    COMMIT,
    PEER,
    ROLLBACK,
    UNKNOWN,
    begin,
    bodies,
    end,
    end_request,
    life,
    ops,
    settled,
)  # fmt: skip

RESUME_CHECK = 323


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Lives:
    return Lives(tmp_path, clock)


@pytest.fixture
async def services(lives: Lives) -> AsyncIterator[Services]:
    services = await life(lives)
    yield services
    await services.transactions.close()
    lives.end()


async def test_a_commit_delivers_the_message(services: Services) -> None:
    half = await begin(services, b"x", queue=2)
    assert bodies(services, 2) == []
    answer = await end(services, half, COMMIT)
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    (message,) = stored(services, "T", 2)
    assert (message.body, message.sys_flag) == (b"x", 8)
    assert message.prepared_offset == half.physical_offset
    for kept in ("TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID"):
        assert kept in message.properties
    assert ops(services) == [(b"0", "commit")]
    assert settled(services) == (1, 1)


async def test_a_rollback_delivers_nothing(services: Services) -> None:
    half = await begin(services)
    answer = await end(services, half, ROLLBACK)
    assert answer is not None
    assert answer.code == 0
    assert bodies(services) == []
    assert ops(services) == [(b"0", "rollback")]


async def test_unknown_changes_nothing_and_is_not_answered(services: Services) -> None:
    half = await begin(services)
    assert await end(services, half, UNKNOWN) is None
    assert ops(services) == []
    await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"tranStateTableOffset": 7}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 1 << 50}, "Find prepared transaction message failed"),
        ({"commitLogOffset": -1}, "Find prepared transaction message failed"),
    ],
)
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
async def test_what_is_not_the_producers_is_refused(
    services: Services, how: int, fields: dict[str, Any], remark: str
) -> None:
    half = await begin(services)
    with pytest.raises(RefusedError) as refused:
        await end(services, half, how, **fields)
    assert (refused.value.code, str(refused.value)) == (1, remark)
    assert ops(services) == []


async def test_only_half_messages_can_be_ended(services: Services) -> None:
    half = await begin(services)
    await end(services, half, COMMIT)
    (message,) = stored(services, "T")
    real = half._replace(queue_offset=0, physical_offset=message.physical_offset)
    with pytest.raises(RefusedError, match="Find prepared transaction message failed"):
        await end(services, real, COMMIT)


@pytest.mark.parametrize("how", [4, 1, "x", ""])
async def test_what_is_no_outcome_is_refused(services: Services, how: object) -> None:
    half = await begin(services)
    with pytest.raises(BodyError, match="commitOrRollback"):
        await end(services, half, 0, commitOrRollback=how)


# --- never both -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [(COMMIT, ROLLBACK, "committed"), (ROLLBACK, COMMIT, "rolled back")],
)
async def test_the_first_outcome_wins(
    services: Services, first: int, second: int, how: str
) -> None:
    half = await begin(services)
    await end(services, half, first)
    with pytest.raises(RefusedError, match=f"has been {how} already"):
        await end(services, half, second)
    answer = await end(services, half, first)  # once more: as upstream, but delivered once
    assert answer is not None
    assert answer.code == 0
    assert len(bodies(services)) == (first == COMMIT)
    assert len(ops(services)) == 1


async def test_of_outcomes_at_once_one_wins(services: Services) -> None:
    halves = [await begin(services) for _ in range(20)]
    asked = [
        answered_later(services, PEER.connection, end_request(half, how))
        for number, half in enumerate(halves)
        for how in ((COMMIT, ROLLBACK, COMMIT) if number % 2 else (ROLLBACK, COMMIT))
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefusedError) for answer in answers) == 20
    assert len(bodies(services)) == 10
    assert len(ops(services)) == 20


async def test_an_old_transaction_has_ended_somehow(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.rocketmq.broker.transactions import book

    monkeypatch.setattr(book, "RECENT_MAX", 1)
    halves = [await begin(services) for _ in range(3)]
    for half in halves:
        await end(services, half, COMMIT)
    for how in (COMMIT, ROLLBACK):
        with pytest.raises(RefusedError, match="has ended already"):
            await end(services, halves[0], how)
    assert len(bodies(services)) == 3


async def test_one_that_was_given_up_may_still_end(services: Services) -> None:
    half = await begin(services)
    message = services.store.message(half.physical_offset)
    assert message is not None
    await services.transactions.end(message, Outcome.GIVE_UP)
    assert [m.body for m in stored(services, names.GIVEN_UP_HALF_TOPIC)] == [b"x"]
    assert settled(services) == (1, 1)
    await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, half, ROLLBACK)


async def test_a_deleted_half_topic_is_forgotten(services: Services) -> None:
    await end(services, await begin(services), COMMIT)
    await services.store.delete(names.HALF_TOPIC)
    await end(services, await begin(services, b"new"), COMMIT)
    assert bodies(services) == [b"x", b"new"]


# --- limits and failures --------------------------------------------------------------------------


async def test_too_many_open_transactions(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "WINDOW_MAX", 2)
    half = await begin(services)
    await begin(services)
    with pytest.raises(RefusedError, match="2 transactions are open") as refused:
        await begin(services)
    assert refused.value.code == 2
    await end(services, half, ROLLBACK)
    await begin(services)


async def test_an_outcome_that_is_not_recorded_is_none(services: Services) -> None:
    half = await begin(services)
    failing = FailingPuts(services, names.OP_HALF_TOPIC)
    with pytest.raises(StorageError):
        await end(services, half, COMMIT)
    assert bodies(services) == []
    failing.mend()
    await end(services, half, ROLLBACK)
    with pytest.raises(RefusedError):
        await end(services, half, COMMIT)


async def test_a_commit_that_is_recorded_is_delivered_later(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.01)
    half = await begin(services)
    failing = FailingPuts(services, "T")
    with pytest.raises(StorageError):
        await end(services, half, COMMIT)
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, half, ROLLBACK)
    await until(lambda: failing.count >= 3)
    assert settled(services) == (None, None)
    failing.mend()
    await until(lambda: bodies(services))
    assert bodies(services) == [b"x"]
    await until(lambda: settled(services) == (1, 1))
    assert len(ops(services)) == 1


async def test_a_delay_that_is_not_possible_refuses_the_commit(services: Services) -> None:
    half = await begin(services, TIMER_DELAY_SEC="99999999")
    with pytest.raises(RefusedError, match="max delay"):
        await end(services, half, COMMIT)
    assert ops(services) == []
    await end(services, half, ROLLBACK)


async def test_a_committed_message_with_a_delay_waits(services: Services) -> None:
    half = await begin(services, DELAY="1")
    await end(services, half, COMMIT)
    assert bodies(services) == []
    assert len(stored(services, names.SCHEDULE_TOPIC)) == 1


# --- given up and taken up again ------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "5"}])
async def test_what_was_given_up_is_checked_again_on_request(
    services: Services, more: dict[str, Any]
) -> None:
    half = await begin(services, TRANSACTION_CHECK_TIMES="15", **more)
    message = services.store.message(half.physical_offset)
    assert message is not None
    await services.transactions.end(message, Outcome.GIVE_UP)
    (given_up,) = stored(services, names.GIVEN_UP_HALF_TOPIC)
    asked = request(RESUME_CHECK, topic="T", msgId=given_up.offset_id)
    assert (await answered_later(services, PEER.connection, asked)).code == 0
    again = stored(services, names.HALF_TOPIC)[-1]
    assert again.queue_offset == 1
    assert "TRANSACTION_CHECK_TIMES\x010" in again.properties
    assert services.transactions.book.is_open(1)
    await end(
        services, half._replace(queue_offset=1, physical_offset=again.physical_offset), COMMIT
    )
    if more:
        (message,) = stored(services, names.SCHEDULE_TOPIC) + stored(services, names.TIMER_TOPIC)
        assert release.real_topic(message) == "T"
    else:
        assert bodies(services) == [b"x"]
