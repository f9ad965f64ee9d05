"""How transactions end: what is stored for them, what is checked, answered and delivered."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions import book, ending, half_messages
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import Op
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from tests.unit.rocketmq.broker.filling import FailingPuts, store, stored, until
from tests.unit.rocketmq.broker.peers import ask_later, refused

from .conftest import COMMIT, ROLLBACK, UNKNOWN, Scene


async def test_a_commit_delivers_the_message(scene: Scene) -> None:
    half = await scene.begin(b"x", queue=2)
    assert scene.bodies(2) == []
    answer = await scene.end(half, COMMIT)
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    (message,) = stored(scene.services, "T", 2)
    assert (message.body, message.sys_flag) == (b"x", 8)
    assert message.prepared_offset == half.physical_offset
    for kept in ("TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID"):
        assert kept in message.properties
    assert scene.ops == [(b"0", "commit")]
    assert scene.settled == (1, 1)


async def test_a_rollback_delivers_nothing(scene: Scene) -> None:
    answer = await scene.end(await scene.begin(), ROLLBACK)
    assert answer is not None
    assert answer.code == 0
    assert scene.bodies() == []
    assert scene.ops == [(b"0", "rollback")]


async def test_unknown_changes_nothing_and_is_not_answered(scene: Scene) -> None:
    half = await scene.begin()
    assert await scene.end(half, UNKNOWN) is None
    assert scene.ops == []
    await scene.end(half, COMMIT)
    assert scene.bodies() == [b"x"]


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
    scene: Scene, how: int, fields: dict[str, Any], remark: str
) -> None:
    half = await scene.begin()
    with refused(1, f"^{remark}$"):
        await scene.end(half, how, **fields)
    assert scene.ops == []


async def test_only_half_messages_can_be_ended(scene: Scene) -> None:
    half = await scene.begin()
    await scene.end(half, COMMIT)
    (message,) = stored(scene.services, "T")
    real = half._replace(queue_offset=0, physical_offset=message.physical_offset)
    with pytest.raises(RefusedError, match="Find prepared transaction message failed"):
        await scene.end(real, COMMIT)


@pytest.mark.parametrize("how", [4, 1, "x", ""])
async def test_what_is_no_outcome_is_refused(scene: Scene, how: object) -> None:
    half = await scene.begin()
    with pytest.raises(BodyError, match="commitOrRollback"):
        await scene.end(half, 0, commitOrRollback=how)


# --- never both -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [(COMMIT, ROLLBACK, "committed"), (ROLLBACK, COMMIT, "rolled back")],
)
async def test_the_first_outcome_wins(scene: Scene, first: int, second: int, how: str) -> None:
    half = await scene.begin()
    await scene.end(half, first)
    with pytest.raises(RefusedError, match=f"has been {how} already"):
        await scene.end(half, second)
    answer = await scene.end(half, first)  # once more: as upstream, but delivered once
    assert answer is not None
    assert answer.code == 0
    assert len(scene.bodies()) == (first == COMMIT)
    assert len(scene.ops) == 1


async def test_of_outcomes_at_once_one_wins(scene: Scene) -> None:
    halves = [await scene.begin() for _ in range(20)]
    asked = [
        scene.end(half, how)
        for number, half in enumerate(halves)
        for how in ((COMMIT, ROLLBACK, COMMIT) if number % 2 else (ROLLBACK, COMMIT))
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefusedError) for answer in answers) == 20
    assert len(scene.bodies()) == 10
    assert len(scene.ops) == 20


async def test_an_old_transaction_has_ended_somehow(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "RECENT_MAX", 1)
    halves = [await scene.begin() for _ in range(3)]
    for half in halves:
        await scene.end(half, COMMIT)
    for how in (COMMIT, ROLLBACK):
        with pytest.raises(RefusedError, match="has ended already"):
            await scene.end(halves[0], how)
    assert len(scene.bodies()) == 3


async def test_one_that_was_given_up_may_still_end(scene: Scene) -> None:
    half = await scene.begin()
    await scene.services.transactions.end(scene.message(half), Outcome.GIVE_UP)
    assert [message.body for message in scene.given_up] == [b"x"]
    assert scene.settled == (1, 1)
    await scene.end(half, COMMIT)
    assert scene.bodies() == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(half, ROLLBACK)


async def test_a_deleted_half_topic_is_forgotten(scene: Scene) -> None:
    await scene.end(await scene.begin(), COMMIT)
    await scene.services.store.delete(names.HALF_TOPIC)
    await scene.end(await scene.begin(b"new"), COMMIT)
    assert scene.bodies() == [b"x", b"new"]


# --- limits and failures --------------------------------------------------------------------------


async def test_too_many_open_transactions(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "WINDOW_MAX", 2)
    half, _ = await scene.begin(), await scene.begin()
    with refused(2, "2 transactions are open"):
        await scene.begin()
    await scene.end(half, ROLLBACK)
    await scene.begin()


async def test_an_outcome_that_is_not_recorded_is_none(scene: Scene) -> None:
    half = await scene.begin()
    failing = FailingPuts(scene.services, names.OP_HALF_TOPIC)
    with pytest.raises(StorageError):
        await scene.end(half, COMMIT)
    assert scene.bodies() == []
    failing.mend()
    await scene.end(half, ROLLBACK)
    with pytest.raises(RefusedError):
        await scene.end(half, COMMIT)


async def test_a_commit_that_is_recorded_is_delivered_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.01)
    half = await scene.begin()
    failing = FailingPuts(scene.services, "T")
    with pytest.raises(StorageError):
        await scene.end(half, COMMIT)
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(half, ROLLBACK)
    await until(lambda: failing.count >= 3)
    assert scene.settled == (None, None)
    failing.mend()
    await until(lambda: scene.settled == (1, 1))
    assert scene.bodies() == [b"x"]
    assert len(scene.ops) == 1


async def test_a_delay_that_is_not_possible_refuses_the_commit(scene: Scene) -> None:
    half = await scene.begin(TIMER_DELAY_SEC="99999999")
    with pytest.raises(RefusedError, match="max delay"):
        await scene.end(half, COMMIT)
    assert scene.ops == []
    await scene.end(half, ROLLBACK)


async def test_a_committed_message_with_a_delay_waits(scene: Scene) -> None:
    await scene.end(await scene.begin(queue=1, DELAY="2"), COMMIT)
    assert scene.bodies(1) == []
    (message,) = stored(scene.services, names.SCHEDULE_TOPIC, 1)
    assert release.real_topic(message) == "T"


# --- given up and taken up again ------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "5"}])
async def test_what_was_given_up_is_checked_again_on_request(
    scene: Scene, more: dict[str, Any]
) -> None:
    services, code = scene.services, RequestCode.RESUME_CHECK_HALF_MESSAGE
    half = await scene.begin(TRANSACTION_CHECK_TIMES="15", **more)
    for message_id in (half.message_id, "7F00000100002A9F0000100000000000"):
        with pytest.raises(RefusedError, match="was not given up"):
            await ask_later(services, code, msgId=message_id)
    with pytest.raises(BodyError, match="no message id"):
        await ask_later(services, code, msgId="x")
    await services.transactions.end(scene.message(half), Outcome.GIVE_UP)
    (given_up,) = scene.given_up
    assert (await ask_later(services, code, topic="T", msgId=given_up.offset_id)).code == 0
    again = scene.halves()[-1]
    assert again.queue_offset == 1
    assert "TRANSACTION_CHECK_TIMES\x010" in again.properties
    assert services.transactions.book.is_open(1)
    newest = half._replace(queue_offset=1, physical_offset=again.physical_offset)
    await scene.end(newest, COMMIT)
    if more:
        (message,) = stored(services, names.SCHEDULE_TOPIC) + stored(services, names.TIMER_TOPIC)
        assert release.real_topic(message) == "T"
    else:
        assert scene.bodies() == [b"x"]


# --- halves and ops -------------------------------------------------------------------------------


async def stored_half(scene: Scene, **more: str) -> StoredMessage:
    text = properties.join({"TRAN_MSG": "true", "PGROUP": "PG", **more})
    draft = Draft("T", 2, b"x", text, flag=9, sys_flag=5, born_ms=7)
    await scene.services.store.append(half_messages.as_half(draft))
    return scene.halves()[-1]


async def test_a_half_is_the_message_in_the_half_topic(scene: Scene) -> None:
    await stored_half(scene)
    found = await stored_half(scene, TRAN_PREPARED_QUEUE_OFFSET="77")  # no client says that
    assert (found.topic, found.queue, found.queue_offset) == (names.HALF_TOPIC, 0, 1)
    assert (found.body, found.flag, found.sys_flag, found.born_ms) == (b"x", 9, 1, 7)
    assert properties.parse(found.properties) == {
        "TRAN_MSG": "true", "PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "2",
    }  # fmt: skip
    assert half_messages.root_of(found) == 1


def test_a_half_has_room_for_what_checks_add() -> None:
    with pytest.raises(RefusedError, match="longer than"):
        half_messages.as_half(Draft("T", 0, b"x", properties.join({"k": "v" * 32650})))


async def test_a_copy_knows_its_root_and_its_checks(scene: Scene) -> None:
    await stored_half(scene)
    copy = await stored_half(scene)
    for checks in (1, 2):
        await scene.services.store.append(half_messages.copy_of(copy, checks))
        copy = scene.halves()[-1]
    assert copy.queue_offset == 3
    assert half_messages.root_of(copy) == 1
    assert properties.value_of(copy.properties, "TRANSACTION_CHECK_TIMES") == "2"
    assert (copy.body, copy.born_ms, copy.flag) == (b"x", 7, 9)


@pytest.mark.parametrize(
    "op", [Op(5, Outcome.COMMIT, 9), Op(6, Outcome.ROLLBACK, 6), Op(0, Outcome.GIVE_UP, 1)]
)
async def test_ops_are_read_as_they_were_written(scene: Scene, op: Op) -> None:
    log = scene.services.store
    await log.append(op.draft(log, scene.services.now_ms))
    (message,) = stored(scene.services, names.OP_HALF_TOPIC)
    assert Op.parse(log, message) == op
    assert message.body == b"%d" % op.half
    assert properties.value_of(message.properties, "TAGS") == "d"
    assert Op.parse(log, replace(message, body=b"x")) is None
    assert Op.parse(log, replace(message, properties="TAGS\x01d")) is None


async def test_messages_of_a_queue_in_slices(scene: Scene) -> None:
    log = scene.services.store
    await store(scene.services, "T", 0, *[b"%d" % number for number in range(300)])
    found = [m.body async for m in half_messages.messages(log, "T", 0, 5, 290)]
    assert found == [b"%d" % number for number in range(5, 290)]
    assert [m async for m in half_messages.messages(log, "none", 0, 0, 0)] == []
