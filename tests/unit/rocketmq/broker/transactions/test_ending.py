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
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.delays import release
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
async def controller(lives: Lives) -> AsyncIterator[Controller]:
    controller = await life(lives)
    yield controller
    await controller.transactions.close()
    lives.end()


async def test_a_commit_delivers_the_message(controller: Controller) -> None:
    half = await begin(controller, b"x", queue=2)
    assert bodies(controller, 2) == []
    answer = await end(controller, half, COMMIT)
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    (message,) = stored(controller, "T", 2)
    assert (message.body, message.sys_flag) == (b"x", 8)
    assert message.prepared_offset == half.physical_offset
    for kept in ("TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID"):
        assert kept in message.properties
    assert ops(controller) == [(b"0", "commit")]
    assert settled(controller) == (1, 1)


async def test_a_rollback_delivers_nothing(controller: Controller) -> None:
    half = await begin(controller)
    answer = await end(controller, half, ROLLBACK)
    assert answer is not None
    assert answer.code == 0
    assert bodies(controller) == []
    assert ops(controller) == [(b"0", "rollback")]


async def test_unknown_changes_nothing_and_is_not_answered(controller: Controller) -> None:
    half = await begin(controller)
    assert await end(controller, half, UNKNOWN) is None
    assert ops(controller) == []
    await end(controller, half, COMMIT)
    assert bodies(controller) == [b"x"]


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
    controller: Controller, how: int, fields: dict[str, Any], remark: str
) -> None:
    half = await begin(controller)
    with pytest.raises(RefusedError) as refused:
        await end(controller, half, how, **fields)
    assert (refused.value.code, str(refused.value)) == (1, remark)
    assert ops(controller) == []


async def test_only_half_messages_can_be_ended(controller: Controller) -> None:
    half = await begin(controller)
    await end(controller, half, COMMIT)
    (message,) = stored(controller, "T")
    real = half._replace(queue_offset=0, physical_offset=message.physical_offset)
    with pytest.raises(RefusedError, match="Find prepared transaction message failed"):
        await end(controller, real, COMMIT)


@pytest.mark.parametrize("how", [4, 1, "x", ""])
async def test_what_is_no_outcome_is_refused(controller: Controller, how: object) -> None:
    half = await begin(controller)
    with pytest.raises(BodyError, match="commitOrRollback"):
        await end(controller, half, 0, commitOrRollback=how)


# --- never both -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [(COMMIT, ROLLBACK, "committed"), (ROLLBACK, COMMIT, "rolled back")],
)
async def test_the_first_outcome_wins(
    controller: Controller, first: int, second: int, how: str
) -> None:
    half = await begin(controller)
    await end(controller, half, first)
    with pytest.raises(RefusedError, match=f"has been {how} already"):
        await end(controller, half, second)
    answer = await end(controller, half, first)  # once more: as upstream, but delivered once
    assert answer is not None
    assert answer.code == 0
    assert len(bodies(controller)) == (first == COMMIT)
    assert len(ops(controller)) == 1


async def test_of_outcomes_at_once_one_wins(controller: Controller) -> None:
    halves = [await begin(controller) for _ in range(20)]
    asked = [
        answered_later(controller, PEER.connection, end_request(half, how))
        for number, half in enumerate(halves)
        for how in ((COMMIT, ROLLBACK, COMMIT) if number % 2 else (ROLLBACK, COMMIT))
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefusedError) for answer in answers) == 20
    assert len(bodies(controller)) == 10
    assert len(ops(controller)) == 20


async def test_an_old_transaction_has_ended_somehow(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.rocketmq.broker.transactions import book

    monkeypatch.setattr(book, "RECENT_MAX", 1)
    halves = [await begin(controller) for _ in range(3)]
    for half in halves:
        await end(controller, half, COMMIT)
    for how in (COMMIT, ROLLBACK):
        with pytest.raises(RefusedError, match="has ended already"):
            await end(controller, halves[0], how)
    assert len(bodies(controller)) == 3


async def test_one_that_was_given_up_may_still_end(controller: Controller) -> None:
    half = await begin(controller)
    message = controller.store.message(half.physical_offset)
    assert message is not None
    await controller.transactions.end(message, Outcome.GIVE_UP)
    assert [m.body for m in stored(controller, names.GIVEN_UP_HALF_TOPIC)] == [b"x"]
    assert settled(controller) == (1, 1)
    await end(controller, half, COMMIT)
    assert bodies(controller) == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await end(controller, half, ROLLBACK)


async def test_a_deleted_half_topic_is_forgotten(controller: Controller) -> None:
    await end(controller, await begin(controller), COMMIT)
    await controller.store.delete(names.HALF_TOPIC)
    await end(controller, await begin(controller, b"new"), COMMIT)
    assert bodies(controller) == [b"x", b"new"]


# --- limits and failures --------------------------------------------------------------------------


async def test_too_many_open_transactions(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "WINDOW_MAX", 2)
    half = await begin(controller)
    await begin(controller)
    with pytest.raises(RefusedError, match="2 transactions are open") as refused:
        await begin(controller)
    assert refused.value.code == 2
    await end(controller, half, ROLLBACK)
    await begin(controller)


async def test_an_outcome_that_is_not_recorded_is_none(controller: Controller) -> None:
    half = await begin(controller)
    failing = FailingPuts(controller, names.OP_HALF_TOPIC)
    with pytest.raises(StorageError):
        await end(controller, half, COMMIT)
    assert bodies(controller) == []
    failing.mend()
    await end(controller, half, ROLLBACK)
    with pytest.raises(RefusedError):
        await end(controller, half, COMMIT)


async def test_a_commit_that_is_recorded_is_delivered_later(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.01)
    half = await begin(controller)
    failing = FailingPuts(controller, "T")
    with pytest.raises(StorageError):
        await end(controller, half, COMMIT)
    with pytest.raises(RefusedError, match="committed already"):
        await end(controller, half, ROLLBACK)
    await until(lambda: failing.count >= 3)
    assert settled(controller) == (None, None)
    failing.mend()
    await until(lambda: bodies(controller))
    assert bodies(controller) == [b"x"]
    await until(lambda: settled(controller) == (1, 1))
    assert len(ops(controller)) == 1


async def test_a_delay_that_is_not_possible_refuses_the_commit(controller: Controller) -> None:
    half = await begin(controller, TIMER_DELAY_SEC="99999999")
    with pytest.raises(RefusedError, match="max delay"):
        await end(controller, half, COMMIT)
    assert ops(controller) == []
    await end(controller, half, ROLLBACK)


async def test_a_committed_message_with_a_delay_waits(controller: Controller) -> None:
    half = await begin(controller, DELAY="1")
    await end(controller, half, COMMIT)
    assert bodies(controller) == []
    assert len(stored(controller, names.SCHEDULE_TOPIC)) == 1


# --- given up and taken up again ------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "5"}])
async def test_what_was_given_up_is_checked_again_on_request(
    controller: Controller, more: dict[str, Any]
) -> None:
    half = await begin(controller, TRANSACTION_CHECK_TIMES="15", **more)
    message = controller.store.message(half.physical_offset)
    assert message is not None
    await controller.transactions.end(message, Outcome.GIVE_UP)
    (given_up,) = stored(controller, names.GIVEN_UP_HALF_TOPIC)
    asked = request(RESUME_CHECK, topic="T", msgId=given_up.offset_id)
    assert (await answered_later(controller, PEER.connection, asked)).code == 0
    again = stored(controller, names.HALF_TOPIC)[-1]
    assert again.queue_offset == 1
    assert "TRANSACTION_CHECK_TIMES\x010" in again.properties
    assert controller.transactions.book.is_open(1)
    await end(
        controller, half._replace(queue_offset=1, physical_offset=again.physical_offset), COMMIT
    )
    if more:
        (message,) = stored(controller, names.SCHEDULE_TOPIC) + stored(
            controller, names.TIMER_TOPIC
        )
        assert release.real_topic(message) == "T"
    else:
        assert bodies(controller) == [b"x"]
