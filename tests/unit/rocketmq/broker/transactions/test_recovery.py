"""What a start finds out about transactions, wherever the life before ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import copy_of
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored, until

from .halves import COMMIT, ROLLBACK, begin, bodies, end, life, ops, settled


@pytest.fixture
async def lives(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


async def crash(lives: Lives, node: Node) -> Node:
    await node.transactions.close()
    return await life(lives)


async def test_a_crash_before_the_outcome_leaves_it_open(lives: Lives) -> None:
    node = await life(lives)
    half = await begin(node)
    node = await crash(lives, node)
    assert node.transactions.book.is_open(0)
    await end(node, half, COMMIT)
    assert bodies(node) == [b"x"]
    await node.transactions.close()


@pytest.mark.parametrize(("how", "other"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
@pytest.mark.parametrize("is_saved", [False, True])
async def test_an_outcome_is_known_after_a_crash(
    lives: Lives, how: int, other: int, is_saved: bool
) -> None:
    node = await life(lives)
    half = await begin(node)
    await end(node, half, how)
    if is_saved:
        node.state.save("consumerOffset.json")
    node = await crash(lives, node)
    assert settled(node) == (1, 1)
    with pytest.raises(RefusedError, match="already"):
        await end(node, half, other)
    await end(node, half, how)
    assert bodies(node) == [b"x"] * (how == COMMIT)  # and it is not doubled
    await node.transactions.close()


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "9"}])
async def test_a_crash_between_the_outcome_and_its_message(
    lives: Lives, more: dict[str, str]
) -> None:
    topic = {"DELAY": names.SCHEDULE_TOPIC, "TIMER_DELAY_SEC": names.TIMER_TOPIC}.get(
        next(iter(more), ""), "T"
    )
    node = await life(lives)
    half = await begin(node, **more)
    hanging = FailingPuts(node, topic, hang=True)
    task = spawn(end(node, half, COMMIT), "end")
    await until(lambda: hanging.count)
    assert ops(node) == [(b"0", "commit")]
    node = await crash(lives, node)
    task.cancel()
    await until(lambda: stored(node, topic))
    with pytest.raises(RefusedError, match="committed already"):
        await end(node, half, ROLLBACK)
    await end(node, half, COMMIT)
    node = await crash(lives, node)
    node = await crash(lives, node)
    await asyncio.sleep(0.02)
    assert [m.body for m in stored(node, topic)] == [b"x"]
    await node.transactions.close()


async def test_a_crash_during_giving_up(lives: Lives) -> None:
    node = await life(lives)
    half = await begin(node)
    message = node.store.message(half.physical_offset)
    assert message is not None
    hanging = FailingPuts(node, names.GIVEN_UP_HALF_TOPIC, hang=True)
    task = spawn(node.transactions.end(message, Outcome.GIVE_UP), "end")
    await until(lambda: hanging.count)
    node = await crash(lives, node)
    task.cancel()
    await until(lambda: stored(node, names.GIVEN_UP_HALF_TOPIC))
    node = await crash(lives, node)
    assert len(stored(node, names.GIVEN_UP_HALF_TOPIC)) == 1
    await end(node, half, COMMIT)
    node = await crash(lives, node)
    with pytest.raises(RefusedError, match="committed already"):
        await end(node, half, ROLLBACK)
    assert bodies(node) == [b"x"]
    await node.transactions.close()


async def test_copies_are_one_transaction_after_a_crash(lives: Lives) -> None:
    node = await life(lives)
    half = await begin(node)
    message = node.store.message(half.physical_offset)
    assert message is not None
    copy = await node.store.append(copy_of(message, 1))
    node = await crash(lives, node)
    assert (node.transactions.book.is_open(0), node.transactions.book.is_open(1)) == (False, True)
    await end(node, half, COMMIT)  # by the offsets of the first one
    node = await crash(lives, node)
    with pytest.raises(RefusedError, match="committed already"):
        await end(node, copy, ROLLBACK)
    assert bodies(node) == [b"x"]
    assert settled(node) == (2, 1)
    await node.transactions.close()


async def test_open_ones_hold_what_is_read_again(lives: Lives, clock: FakeClock) -> None:
    """One open transaction at the start, a thousand that ended behind it, any order of crashes."""
    node = await life(lives)
    first = await begin(node, b"first")
    halves = [await begin(node, b"%d" % number, number % 4) for number in range(1000)]
    for number, half in enumerate(halves):
        await end(node, half, COMMIT if number % 2 else ROLLBACK)
        clock.advance(SECOND // 100)
    assert settled(node) == (None, None)
    node = await crash(lives, node)
    for number, half in enumerate(halves):
        with pytest.raises(RefusedError):
            await end(node, half, ROLLBACK if number % 2 else COMMIT)
    await end(node, first, COMMIT)
    assert settled(node) == (1001, 1001)
    node.state.save("consumerOffset.json")
    node = await crash(lives, node)
    found = sorted(body for queue in range(4) for body in bodies(node, queue))
    assert found == sorted([b"first", *(b"%d" % number for number in range(1, 1000, 2))])
    assert list(node.transactions.book.undone()) == []
    assert node.transactions.window == 0
    await node.transactions.close()


async def test_outcomes_of_a_deleted_half_topic_do_not_count(lives: Lives) -> None:
    node = await life(lives)
    await end(node, await begin(node), COMMIT)
    await node.store.delete(names.HALF_TOPIC)
    half = await begin(node, b"new")
    node = await crash(lives, node)
    await end(node, half, ROLLBACK)
    node = await crash(lives, node)
    with pytest.raises(RefusedError, match="rolled back already"):
        await end(node, half, COMMIT)
    assert bodies(node) == [b"x"]
    await node.transactions.close()


async def test_progress_beyond_the_topics_is_set_right(lives: Lives) -> None:
    node = await life(lives)
    for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC):
        node.offsets.commit(topic, names.TRANSACTION_GROUP, 0, 100)
    node.state.save("consumerOffset.json")
    node = await crash(lives, node)
    half = await begin(node)
    await end(node, half, COMMIT)
    assert bodies(node) == [b"x"]
    await node.transactions.close()
