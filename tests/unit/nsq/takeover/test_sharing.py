"""Messages that several channel queues hold are stored once; none is lost or invented."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.takeover.data_file import Records, cut
from penstock.nsq.takeover.sharing import KINDS_MAX, Share, merge
from tools.harness.go_files import Message, data, messages

Held = list[Message]


def chunks(held: Held, count: int) -> Iterator[Records]:
    for start in range(0, len(held), count):
        yield cut(data(held[start : start + count]), 10_000).records


def merged(*queues: Held, count: int = 10) -> list[Share]:
    return list(merge([chunks(held, count) for held in queues]))


def contents(shares: list[Share], lane: int) -> Counter[tuple[bytes, int]]:
    return Counter(
        (identity, share.attempts)
        for share in shares
        if lane in share.lanes
        for identity in share.records.identities()
    )


def check(shares: list[Share], queues: tuple[Held, ...]) -> int:
    """Every queue gets back what it held; how many messages are stored."""
    for lane, held in enumerate(queues):
        records = cut(data(held), 10_000).records
        wanted = zip(records.identities(), (m.attempts for m in held), strict=True)
        assert contents(shares, lane) == Counter(wanted)
    for share in shares:
        assert len(share.records)
        assert len(set(share.lanes)) == len(share.lanes)
    return sum(len(share.records) for share in shares)


def test_equal_queues_are_stored_once_and_in_order() -> None:
    held = messages(range(95))
    shares = merged(held, held, held)
    assert check(shares, (held, held, held)) == 95
    assert {share.lanes for share in shares} == {(0, 1, 2)}
    order = [identity for share in shares for identity in share.records.identities()]
    assert order == sorted(order)


def test_a_queue_alone_passes_through() -> None:
    held = messages(range(25))
    shares = merged(held, [])
    assert check(shares, (held, [])) == 25
    assert {share.lanes for share in shares} == {(0,)}


def test_queues_that_are_ahead_of_others_are_joined_by_time() -> None:
    queues = messages(range(200)), messages(range(63, 200)), messages(range(190, 200))
    assert check(merged(*queues), queues) == 200


def test_what_was_delivered_keeps_its_attempts_and_is_stored_apart() -> None:
    again = messages([3], 1) + messages([5], 2)
    queues = messages([0, 1, 2, 4]) + again, messages(range(6))
    shares = merged(*queues)
    assert check(shares, queues) == 8
    assert {(share.lanes, share.attempts) for share in shares if share.attempts} == {
        ((0,), 1),
        ((0,), 2),
    }


def test_equal_queues_with_attempts_are_stored_once_too() -> None:
    held = messages(range(5)) + messages(range(5, 8), 3)
    shares = merged(held, held)
    assert check(shares, (held, held)) == 8


def test_a_message_twice_in_a_queue_stays_twice() -> None:
    queues = messages([1, 2, 1]), messages([1, 2])
    assert check(merged(*queues), queues) == 3


def test_equal_ids_with_another_body_are_not_joined() -> None:
    queues = [Message(5, 0, b"one")], [Message(5, 0, b"two")]
    assert check(merged(*queues), queues) == 2


def test_sets_of_channels_are_bounded() -> None:
    chance = random.Random(3)
    queues = tuple([m for m in messages(range(600)) if chance.random() < 0.5] for _ in range(12))
    shares = merged(*queues, count=1000)
    stored = check(shares, queues)
    assert len(shares) <= KINDS_MAX + 12 * 12
    assert stored <= sum(map(len, queues))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 0, 0, 1, 7]))),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 9),
)
def test_whatever_the_queues_hold_each_gets_its_own(
    numbers: list[list[tuple[int, int]]], count: int
) -> None:
    queues = tuple([m for n, a in held for m in messages([n], a)] for held in numbers)
    assert check(merged(*queues, count=count), queues) <= sum(map(len, queues))


@pytest.mark.parametrize("count", [1, 3, 50])
def test_memory_first_then_disk_as_go_flushes(count: int) -> None:
    """The overflow on disk is newer than what was in memory and was appended at the stop."""
    held = messages(range(50, 200)) + messages(range(50))
    shares = merged(held, held, count=count)
    assert check(shares, (held, held)) == 200
