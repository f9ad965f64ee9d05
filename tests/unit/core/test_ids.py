from __future__ import annotations

import pytest

from penstock.core.ids import ID_LENGTH, NODE_ID_MAX, counter, format_id, id_base

WALL = 1_700_000_000_000_000_000


def test_an_id_is_16_lower_case_hex_digits() -> None:
    assert format_id(0) == b"0" * 16
    assert format_id(0xDEADBEEF) == b"00000000deadbeef"
    assert len(format_id(id_base(NODE_ID_MAX, WALL) + 10**12)) == ID_LENGTH


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
