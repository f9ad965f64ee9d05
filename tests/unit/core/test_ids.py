"""Ids of messages, and the ids of logs with the epochs in which they went on otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.ids import (
    NODE_ID_MAX,
    Epoch,
    Fork,
    counter,
    epochs_of,
    fork,
    format_id,
    format_log_id,
    id_base,
    is_another,
    log_of,
)

WALL = 1_700_000_000_000_000_000


def test_an_id_is_16_lower_case_hex_digits() -> None:
    assert format_id(0) == b"0" * 16
    assert format_id(0xDEADBEEF) == b"00000000deadbeef"
    assert len(format_id(id_base(NODE_ID_MAX, WALL) + 10**12)) == 16


def test_nodes_do_not_share_ids() -> None:
    bases = [id_base(node, WALL) for node in (0, 1, 512, NODE_ID_MAX)]
    assert [base >> 53 for base in bases] == [0, 1, 512, NODE_ID_MAX]
    assert all(base < 1 << 63 for base in bases)


def test_a_queue_made_later_starts_above_all_that_the_older_one_gave_out() -> None:
    a_second_later = id_base(7, WALL + 10**9)
    assert a_second_later - id_base(7, WALL) == 1_000_000


def test_a_clock_before_the_epoch_does_not_touch_the_node_bits() -> None:
    assert id_base(3, 0) == 3 << 53
    assert id_base(3, -(10**18)) == 3 << 53
    assert id_base(3, 1_577_836_800 * 10**9 + 5_000) == (3 << 53) + 5


def test_a_base_may_have_to_be_above_what_the_time_gives() -> None:
    at_least = counter(id_base(7, WALL)) + 5
    assert id_base(7, WALL, at_least) == id_base(7, WALL) + 5
    assert id_base(7, WALL + 10**9, at_least) == id_base(7, WALL + 10**9)


@pytest.mark.parametrize("node", [-1, NODE_ID_MAX + 1])
def test_node_ids_out_of_range_are_refused(node: int) -> None:
    with pytest.raises(ValueError, match=rf"node id {node} is outside 0\.\.1023"):
        id_base(node, WALL)


BASE = 0x0A61_B2C3_D4E5_F607
PLAIN = "0a61b2c3d4e5f607"


def log_id(*epochs: tuple[int, str, bool]) -> str:
    return format_log_id(BASE, [Epoch(*each) for each in epochs])


def test_the_id_of_a_log_names_its_epochs() -> None:
    assert log_id() == PLAIN
    told = log_id((1500, "9f3a77c1", True), (2000, "00000001", False))
    assert told == f"{PLAIN}-5dc.9f3a77c1~7d0.00000001"
    assert epochs_of(told) == [(1500, "9f3a77c1", True), (2000, "00000001", False)]
    assert (log_of(told), log_of(PLAIN), log_of("")) == (PLAIN, PLAIN, "")


def test_logs_are_known_by_their_base_in_whatever_epoch() -> None:
    told = log_id((1500, "a", True))
    assert not is_another(told, PLAIN)
    assert is_another(told, "0a61b2c3d4e5f608")
    assert not is_another("", told)


A, B, C = (100, "a", True), (250, "b", True), (300, "c", False)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ((), (), None),
        ((A,), (A,), None),
        ((), (A,), Fork(100, restored=True)),
        ((A,), (A, B), Fork(250, restored=True)),
        ((A,), (A, C), Fork(300, restored=False)),
        ((A, C), (A, B), Fork(250, restored=True)),
        # The oldest are forgotten.
        ((A, B), (B, C), Fork(300, restored=False)),
        # From the backup of a later time than the one that is known here.
        ((A,), (B,), Fork(100, restored=True)),
        # The first offset is the retention's, where a queue has let go of what came before.
        (((100, "a", True),), ((180, "a", True),), None),
    ],
)
def test_two_lives_of_a_log_part_where_the_first_epoch_begins_that_one_has_alone(
    one: tuple[Any, ...], other: tuple[Any, ...], found: Fork | None
) -> None:
    assert fork(log_id(*one), log_id(*other)) == found
    assert fork(log_id(*other), log_id(*one)) == found


def test_different_logs_do_not_part() -> None:
    assert fork(log_id(A), "0a61b2c3d4e5f608") is None
    assert fork("", log_id(A)) is None
