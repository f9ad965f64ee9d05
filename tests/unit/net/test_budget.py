"""The order in which connections may continue when together they hold too many bytes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.settings.web_options import WebOptions
from penstock.net.budget import SMALL, Budget, Memory, MemoryQueue, MemoryShare, MemoryTurn

KIB = 1024
LIMIT = 1024 * KIB


class Peer:
    """A connection with its share, and a record of the calls that it got."""

    def __init__(self, turns: MemoryQueue) -> None:
        self.share = MemoryTurn(turns, self.go_on, self.give_up)
        self.turns_had = 0
        self.given_up = 0
        self.has_turn = asyncio.Event()

    def go_on(self) -> None:
        self.turns_had += 1
        self.has_turn.set()

    def give_up(self) -> None:
        self.given_up += 1
        self.share.close()


@pytest.fixture
def turns() -> MemoryQueue:
    return MemoryQueue(Budget("--flag", LIMIT))


def test_a_share_may_grow_while_there_is_room() -> None:
    both = Budget("--flag", LIMIT)
    one, other = MemoryShare(both), MemoryShare(both)
    assert one.hold(LIMIT)
    assert other.hold(SMALL)  # small ones always
    assert not other.hold(SMALL + 1)
    assert both.used == LIMIT + SMALL + 1
    one.hold(0)
    assert other.hold(2 * LIMIT)  # one that is alone
    other.hold(0)
    assert both.used == 0


def test_without_a_limit_all_may_grow() -> None:
    both = Budget("--flag", 0)
    assert MemoryShare(both).hold(1 << 40)
    assert MemoryShare(both).hold(1 << 40)
    assert both.has_room(1 << 40)


def test_an_answer_fits_or_is_alone() -> None:
    answers = Budget("--flag", LIMIT)
    assert answers.has_room(2 * LIMIT)
    MemoryShare(answers).hold(LIMIT - 5)
    assert answers.has_room(5)
    assert not answers.has_room(6)


async def test_the_first_may_finish_and_the_next_has_its_turn(turns: MemoryQueue) -> None:
    first, second, third = Peer(turns), Peer(turns), Peer(turns)
    assert first.share.hold(LIMIT)
    assert second.share.hold(SMALL + 1)  # over the limit now, and nobody is first
    assert not third.share.hold(SMALL + 1)
    assert not first.share.hold(LIMIT + 1)
    assert (third.share.waits, first.share.waits, turns.budget.refused) == (True, True, 2)
    assert second.share.hold(10 * LIMIT)  # whatever it takes
    assert second.share.hold(0)  # complete
    assert (third.turns_had, third.share.waits) == (1, False)
    assert third.share.hold(LIMIT)
    assert first.turns_had == 0
    third.share.close()
    assert first.turns_had == 1
    first.share.close()
    assert turns.budget.used == 0


async def test_the_first_is_first_for_one_request_only(turns: MemoryQueue) -> None:
    full, first, waiting = (Peer(turns) for _ in range(3))
    assert full.share.hold(LIMIT)
    assert first.share.hold(LIMIT)
    assert not waiting.share.hold(LIMIT)
    assert first.share.hold(LIMIT + SMALL)
    assert not first.share.hold(LIMIT - 1)  # one is complete, and much of the next is there
    assert waiting.turns_had == 1
    waiting.share.close()
    assert first.turns_had == 1


async def test_with_room_several_go_on_at_once(turns: MemoryQueue) -> None:
    full, first = Peer(turns), Peer(turns)
    assert full.share.hold(LIMIT)
    assert first.share.hold(SMALL + 1)
    waiting = [Peer(turns) for _ in range(8)]
    for peer in waiting:
        assert not peer.share.hold(SMALL + 1)
    full.share.close()
    # 576 KiB are held of 1024, which leaves room for one read of 256 KiB.
    assert [peer.turns_had for peer in waiting] == [1, 0, 0, 0, 0, 0, 0, 0]
    first.share.close()
    # As much again, and the next of them is first now.
    assert [peer.turns_had for peer in waiting] == [1, 1, 1, 0, 0, 0, 0, 0]


async def test_who_has_gone_waits_no_more(turns: MemoryQueue) -> None:
    full, first, gone, next_one = (Peer(turns) for _ in range(4))
    assert full.share.hold(LIMIT)
    assert first.share.hold(SMALL + 1)
    assert not gone.share.hold(SMALL + 1)
    assert not next_one.share.hold(SMALL + 1)
    gone.share.close()
    assert gone.turns_had == 0
    first.share.close()
    assert (gone.turns_had, next_one.turns_had) == (0, 1)


async def test_those_that_get_on_are_left_alone_at_each_look(turns: MemoryQueue) -> None:
    busy, also_busy, waiting = (Peer(turns) for _ in range(3))
    assert also_busy.share.hold(LIMIT)
    assert busy.share.hold(SMALL + 1)
    assert not waiting.share.hold(SMALL + 1)
    for size in range(2, 9):
        assert busy.share.hold(size * SMALL + 1)
        also_busy.share.hold(LIMIT + size * SMALL)
        turns._look()
    assert (busy.given_up, also_busy.given_up, waiting.given_up) == (0, 0, 0)


async def test_one_that_completes_requests_is_left_alone_whatever_it_holds(
    turns: MemoryQueue,
) -> None:
    busy, first, waiting = (Peer(turns) for _ in range(3))
    assert busy.share.hold(LIMIT)
    assert first.share.hold(SMALL + 1)
    assert not waiting.share.hold(SMALL + 1)
    busy.share.hold(LIMIT - 1)
    first.share.hold(3 * SMALL)
    turns._look()
    assert (busy.given_up, first.given_up) == (0, 0)


async def test_those_that_do_nothing_are_given_up_while_others_wait() -> None:
    turns = MemoryQueue(Budget("--flag", LIMIT), stall_s=0.2)
    full, stalled, waiting = Peer(turns), Peer(turns), Peer(turns)
    assert full.share.hold(LIMIT)
    assert stalled.share.hold(SMALL + 1)
    assert not waiting.share.hold(SMALL + 1)
    await asyncio.wait_for(waiting.has_turn.wait(), 120)
    assert (full.given_up, stalled.given_up, waiting.given_up) == (1, 1, 0)


async def test_one_that_waits_for_something_else_does_not_stay_the_first(
    turns: MemoryQueue,
) -> None:
    full, first, waiting = (Peer(turns) for _ in range(3))
    first.share.give_up = lambda: None  # a client that does not read its answers, say
    assert full.share.hold(LIMIT)
    assert first.share.hold(SMALL + 1)
    assert not waiting.share.hold(SMALL + 1)
    full.share.give_up = lambda: None
    turns._look()
    turns._look()
    assert waiting.turns_had == 1
    assert waiting.share.hold(LIMIT)
    assert not first.share.hold(SMALL + 2)  # it has to wait as others do


def test_memory_as_the_options_say() -> None:
    memory = Memory.of(WebOptions(max_request_memory=1, max_answer_memory=2))
    assert (memory.requests.limit, memory.answers.limit) == (1, 2)
    assert (memory.requests.flag, memory.answers.flag) == (
        "--max-request-memory", "--max-answer-memory")  # fmt: skip
    assert Memory.of().answers.limit == 256 << 20
