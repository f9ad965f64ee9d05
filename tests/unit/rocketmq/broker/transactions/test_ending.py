"""How transactions end: what is checked, what is answered, what is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.transactions import ending
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored, until
from tests.unit.rocketmq.broker.peers import request
from tests.unit.rocketmq.broker.test_pull import pull, send
from tests.unit.rocketmq.raw_client import RawClient

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
HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Lives:
    return Lives(tmp_path, clock)


@pytest.fixture
async def node(lives: Lives) -> AsyncIterator[Node]:
    node = await life(lives)
    yield node
    await node.transactions.close()
    lives.end()


async def test_a_commit_delivers_the_message(node: Node) -> None:
    half = await begin(node, b"x", queue=2)
    assert bodies(node, 2) == []
    answer = await end(node, half, COMMIT)
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    (message,) = stored(node, "T", 2)
    assert (message.body, message.sys_flag) == (b"x", 8)
    assert message.prepared_offset == half.physical_offset
    for kept in ("TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID"):
        assert kept in message.properties
    assert ops(node) == [(b"0", "commit")]
    assert settled(node) == (1, 1)


async def test_a_rollback_delivers_nothing(node: Node) -> None:
    half = await begin(node)
    answer = await end(node, half, ROLLBACK)
    assert answer is not None
    assert answer.code == 0
    assert bodies(node) == []
    assert ops(node) == [(b"0", "rollback")]


async def test_unknown_changes_nothing_and_is_not_answered(node: Node) -> None:
    half = await begin(node)
    assert await end(node, half, UNKNOWN) is None
    assert ops(node) == []
    await end(node, half, COMMIT)
    assert bodies(node) == [b"x"]


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
    node: Node, how: int, fields: dict[str, object], remark: str
) -> None:
    half = await begin(node)
    with pytest.raises(RefusedError) as refused:
        await end(node, half, how, **fields)
    assert (refused.value.code, str(refused.value)) == (1, remark)
    assert ops(node) == []


async def test_only_half_messages_can_be_ended(node: Node) -> None:
    half = await begin(node)
    await end(node, half, COMMIT)
    (message,) = stored(node, "T")
    real = half._replace(queue_offset=0, physical_offset=message.physical_offset)
    with pytest.raises(RefusedError, match="Find prepared transaction message failed"):
        await end(node, real, COMMIT)


@pytest.mark.parametrize("how", [4, 1, "x", ""])
async def test_what_is_no_outcome_is_refused(node: Node, how: object) -> None:
    half = await begin(node)
    with pytest.raises(BodyError, match="commitOrRollback"):
        await end(node, half, 0, commitOrRollback=how)


# --- never both -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [(COMMIT, ROLLBACK, "committed"), (ROLLBACK, COMMIT, "rolled back")],
)
async def test_the_first_outcome_wins(node: Node, first: int, second: int, how: str) -> None:
    half = await begin(node)
    await end(node, half, first)
    with pytest.raises(RefusedError, match=f"has been {how} already"):
        await end(node, half, second)
    answer = await end(node, half, first)  # once more: as upstream, but delivered once
    assert answer is not None
    assert answer.code == 0
    assert len(bodies(node)) == (first == COMMIT)
    assert len(ops(node)) == 1


async def test_of_outcomes_at_once_one_wins(node: Node) -> None:
    halves = [await begin(node) for _ in range(20)]
    asked = [
        ending.end_transaction(node, PEER.connection, end_request(half, how))
        for number, half in enumerate(halves)
        for how in ((COMMIT, ROLLBACK, COMMIT) if number % 2 else (ROLLBACK, COMMIT))
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, RefusedError) for answer in answers) == 20
    assert len(bodies(node)) == 10
    assert len(ops(node)) == 20


async def test_an_old_transaction_has_ended_somehow(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.rocketmq.broker.transactions import book

    monkeypatch.setattr(book, "RECENT_MAX", 1)
    halves = [await begin(node) for _ in range(3)]
    for half in halves:
        await end(node, half, COMMIT)
    for how in (COMMIT, ROLLBACK):
        with pytest.raises(RefusedError, match="has ended already"):
            await end(node, halves[0], how)
    assert len(bodies(node)) == 3


async def test_one_that_was_given_up_may_still_end(node: Node) -> None:
    half = await begin(node)
    message = node.store.message(half.physical_offset)
    assert message is not None
    await node.transactions.end(message, Outcome.GIVE_UP)
    assert [m.body for m in stored(node, names.GIVEN_UP_HALF_TOPIC)] == [b"x"]
    assert settled(node) == (1, 1)
    await end(node, half, COMMIT)
    assert bodies(node) == [b"x"]
    with pytest.raises(RefusedError, match="committed already"):
        await end(node, half, ROLLBACK)


async def test_a_deleted_half_topic_is_forgotten(node: Node) -> None:
    await end(node, await begin(node), COMMIT)
    await node.store.delete(names.HALF_TOPIC)
    await end(node, await begin(node, b"new"), COMMIT)
    assert bodies(node) == [b"x", b"new"]


# --- limits and failures --------------------------------------------------------------------------


async def test_too_many_open_transactions(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "WINDOW_MAX", 2)
    half = await begin(node)
    await begin(node)
    with pytest.raises(RefusedError, match="2 transactions are open") as refused:
        await begin(node)
    assert refused.value.code == 2
    await end(node, half, ROLLBACK)
    await begin(node)


async def test_an_outcome_that_is_not_recorded_is_none(node: Node) -> None:
    half = await begin(node)
    failing = FailingPuts(node, names.OP_HALF_TOPIC)
    with pytest.raises(StorageError):
        await end(node, half, COMMIT)
    assert bodies(node) == []
    failing.mend()
    await end(node, half, ROLLBACK)
    with pytest.raises(RefusedError):
        await end(node, half, COMMIT)


async def test_a_commit_that_is_recorded_is_delivered_later(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.01)
    half = await begin(node)
    failing = FailingPuts(node, "T")
    with pytest.raises(StorageError):
        await end(node, half, COMMIT)
    with pytest.raises(RefusedError, match="committed already"):
        await end(node, half, ROLLBACK)
    await until(lambda: failing.count >= 3)
    assert settled(node) == (None, None)
    failing.mend()
    await until(lambda: bodies(node))
    assert bodies(node) == [b"x"]
    await until(lambda: settled(node) == (1, 1))
    assert len(ops(node)) == 1


async def test_a_delay_that_is_not_possible_refuses_the_commit(node: Node) -> None:
    half = await begin(node, TIMER_DELAY_SEC="99999999")
    with pytest.raises(RefusedError, match="max delay"):
        await end(node, half, COMMIT)
    assert ops(node) == []
    await end(node, half, ROLLBACK)


async def test_a_committed_message_with_a_delay_waits(node: Node) -> None:
    half = await begin(node, DELAY="1")
    await end(node, half, COMMIT)
    assert bodies(node) == []
    assert len(stored(node, names.SCHEDULE_TOPIC)) == 1


# --- given up and taken up again ------------------------------------------------------------------


async def test_what_was_given_up_is_checked_again_on_request(node: Node) -> None:
    half = await begin(node, TRANSACTION_CHECK_TIMES="15")
    message = node.store.message(half.physical_offset)
    assert message is not None
    await node.transactions.end(message, Outcome.GIVE_UP)
    (given_up,) = stored(node, names.GIVEN_UP_HALF_TOPIC)
    asked = request(RESUME_CHECK, topic="T", msgId=given_up.offset_id)
    assert (await ending.resume_check(node, PEER.connection, asked)).code == 0
    again = stored(node, names.HALF_TOPIC)[-1]
    assert again.queue_offset == 1
    assert "TRANSACTION_CHECK_TIMES\x010" in again.properties
    assert node.transactions.book.is_open(1)
    await end(node, half._replace(queue_offset=1, physical_offset=again.physical_offset), COMMIT)
    assert bodies(node) == [b"x"]


async def test_only_what_was_given_up_can_be_resumed(node: Node) -> None:
    half = await begin(node)
    for message_id in (half.message_id, "7F00000100002A9F0000100000000000"):
        asked = request(RESUME_CHECK, msgId=message_id)
        with pytest.raises(RefusedError, match="none that was given up"):
            await ending.resume_check(node, PEER.connection, asked)
    with pytest.raises(BodyError, match="no message id"):
        await ending.resume_check(node, PEER.connection, request(RESUME_CHECK, msgId="x"))


# --- on the wire ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "expected"), [(COMMIT, [b"x"]), (ROLLBACK, [])])
def test_a_transaction_on_the_wire(
    connect: Callable[[], RawClient], how: int, expected: list[bytes]
) -> None:
    client = connect()
    answer = send(client, "Tx", b"x", queue=1, f=4, i=HALF_TEXT)
    assert answer.ext is not None
    assert answer.ext["queueId"] == "1"
    assert pull(client, "Tx", 1, 0)[1] == []
    fields: dict[str, object] = {
        "producerGroup": "PG", "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": int(answer.ext["msgId"][16:], 16), "commitOrRollback": how,
        "fromTransactionCheck": "false", "msgId": "",
    }  # fmt: skip
    refused = client.ask(37, **{**fields, "producerGroup": "other"})
    assert (refused.code, refused.remark) == (1, "The producer group wrong")
    client.tell(37, **fields)  # as Java does
    assert client.ask(37, **fields).code == 0
    assert client.ask(37, **{**fields, "commitOrRollback": 20 - how}).code == 1
    assert [m.body for m in pull(client, "Tx", 1, 0)[1]] == expected


def test_a_broker_may_refuse_transactions(
    connect: Callable[[], RawClient], settings: object
) -> None:
    settings.reject_transaction_message = True  # type: ignore[attr-defined]
    answer = send(connect(), "Tx", b"x", f=4, i=HALF_TEXT)
    assert answer.code == 16
    assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
