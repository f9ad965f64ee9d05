"""Batches of groups that pop in order; the times are given."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.pop import pop_orders
from penstock.rocketmq.broker.pop.pop_orders import KEPT_MS, Finished, OpenBatch, OrderTable
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

KEY = ("T", "G")
QUEUE = 3
NOW = 1_000_000


@pytest.fixture
def table() -> OrderTable:
    """Messages 5 to 7 are out for a second."""
    table = OrderTable()
    assert table.put(KEY, QUEUE, OpenBatch([5, 6, 7], NOW, 1000)) == (QUEUE, 0, {})
    return table


def test_a_queue_is_blocked_until_all_is_acknowledged(table: OrderTable) -> None:
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.may_pop(KEY, QUEUE + 1, NOW)
    assert table.may_pop(("T", "other"), QUEUE, NOW)
    assert table.finish(KEY, QUEUE, [7], NOW) == Finished(5, [])
    assert table.finish(KEY, QUEUE, [5], NOW) == Finished(6, [])
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.finish(KEY, QUEUE, [6], NOW) == Finished(8, [])
    assert table.may_pop(KEY, QUEUE, NOW)
    assert (len(table), KEY in table) == (0, True)


def test_a_batch_from_the_future_blocks_nobody(table: OrderTable) -> None:
    """After the system's time was set back, it would otherwise stay invisible for much longer."""
    assert table.may_pop(KEY, QUEUE, NOW - 1001)
    assert table.free_ms(KEY, NOW - 1001) is None
    assert not table.may_pop(KEY, QUEUE, NOW - 1000)
    assert table.free_ms(KEY, NOW - 1000) == NOW + 1000


def test_acknowledgements_that_are_not_of_the_batch(table: OrderTable) -> None:
    assert table.finish(KEY, QUEUE, [5, 9], NOW) == Finished(6, [9])
    assert table.finish(KEY, QUEUE, [6], NOW - 1) is None
    assert table.finish(KEY, QUEUE + 1, [6], NOW) is None
    assert table.finish(("T", "other"), QUEUE, [6], NOW) is None
    found = table.find(KEY, QUEUE)
    assert found is not None
    assert (found.next_offset, found.done) == (6, {5})


def test_what_is_visible_again_is_counted(table: OrderTable) -> None:
    assert not table.may_pop(KEY, QUEUE, NOW + 999)
    assert table.may_pop(KEY, QUEUE, NOW + 1000)
    later = NOW + 1000
    assert table.put(KEY, QUEUE, OpenBatch([5, 6, 7, 8], later, 1000)) == (
        QUEUE, 0, {5: 1, 6: 1, 7: 1},
    )  # fmt: skip
    assert table.finish(KEY, QUEUE, [5], NOW) is None, "that batch is out no more"
    table.finish(KEY, QUEUE, [5], later)
    again = OpenBatch([6, 7, 8], later + 1000, 1000)
    assert table.put(KEY, QUEUE, again) == (QUEUE, 1, {6: 2, 7: 2, 8: 1})
    assert len(table) == 1


def test_who_repeats_an_attempt_is_not_blocked() -> None:
    table = OrderTable()
    table.put(KEY, QUEUE, OpenBatch([5], NOW, 1000, "first"))
    assert not table.may_pop(KEY, QUEUE, NOW, "second")
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.may_pop(KEY, QUEUE, NOW, "first")
    assert table.put(KEY, QUEUE, OpenBatch([5], NOW, 1000, "first")).counts == {}


def test_another_time_for_a_message(table: OrderTable) -> None:
    assert table.hide(KEY, QUEUE, 6, NOW, NOW + 5000)
    assert table.free_ms(KEY, NOW) == NOW + 5000
    assert not table.may_pop(KEY, QUEUE, NOW + 4999)
    assert table.hide(KEY, QUEUE, 6, NOW, NOW)
    assert table.free_ms(KEY, NOW) == NOW + 1000, "the others are hidden still"
    assert not table.hide(KEY, QUEUE, 9, NOW, NOW)
    assert not table.hide(KEY, QUEUE, 6, NOW - 1, NOW)
    table.finish(KEY, QUEUE, [5, 7], NOW)
    assert table.may_pop(KEY, QUEUE, NOW)
    assert table.free_ms(KEY, NOW) is None


def test_forgetting(table: OrderTable) -> None:
    table.put(("T", "other"), 0, OpenBatch([1], NOW, 1000))
    table.put(("other", "G"), 0, OpenBatch([1], NOW, 1000))
    table.forget_topic("T")
    assert (KEY in table, ("T", "other") in table, len(table)) == (False, False, 1)
    table.forget_group("G")
    assert len(table) == 0
    table.put(KEY, 0, OpenBatch([1], NOW, 1000))
    table.forget_old(NOW + 1000 + KEPT_MS)
    assert len(table) == 1
    table.forget_old(NOW + 1001 + KEPT_MS)
    assert (len(table), KEY in table) == (0, True)
    assert table.leave(KEY)
    assert not table.leave(KEY)


def test_limits(table: OrderTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_orders, "GROUPS_MAX", 1)
    monkeypatch.setattr(pop_orders, "OPEN_MAX", 1)
    table.enter(KEY)
    with pytest.raises(BodyError, match="more than 1 groups"):
        table.enter(("T", "other"))
    assert not table.may_pop(KEY, QUEUE + 1, NOW)
    assert table.may_pop(KEY, QUEUE, NOW + 1000)
    monkeypatch.undo()
    with pytest.raises(BodyError, match="is too long"):
        table.enter(("T", "x" * 1000))


def test_the_file_is_as_java_writes_it(table: OrderTable) -> None:
    table.finish(KEY, QUEUE, [6], NOW)
    table.hide(KEY, QUEUE, 7, NOW, NOW + 3000)
    table.enter(("T", "empty"))
    written = table.as_json()
    assert written == {"table": {
        "T@G": {QUEUE: {"popTime": NOW, "i": 1000, "o": [5, 1, 2], "cm": 2, "l": NOW,
                        "oc": {}, "ot": {7: NOW + 3000}}},
        "T@empty": {},
    }}  # fmt: skip
    loaded = OrderTable()
    loaded.load(fastjson.loads(fastjson.dumps(written)))
    assert loaded.as_json() == written
    assert (len(loaded), ("T", "empty") in loaded) == (1, True)
    assert loaded.finish(KEY, QUEUE, [5], NOW) == Finished(7, [])


BATCH = {"popTime": 1, "i": 2, "o": [3], "cm": 0}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"table": {"no-group": {}}},
        {"table": {"T@G": 5}},
        {"table": {"T@G": {"0": {**BATCH, "o": ["x"]}}}},
        {"table": {"T@G": {"0": {**BATCH, "popTime": None}}}},
        {"table": {"T@G": {"0": {**BATCH, "o": list(range(63))}}}},
        {"table": {"T@G": {"0": {**BATCH, "ot": {"3": "x"}}}}},
    ],
)
def test_a_damaged_file(value: Any) -> None:
    with pytest.raises(BodyError):
        OrderTable().load(value)


def test_what_is_loaded_takes_the_place_of_what_was_there(table: OrderTable) -> None:
    """As when a slave reads the table again that its master has written."""
    with pytest.raises(BodyError):
        table.load({"table": {"T@H": {}, "no key": {}}})
    assert KEY in table
    assert ("T", "H") not in table
    written = table.as_json()
    table.load(written)
    assert table.as_json() == written, "had once, whoever reads of it again"
    table.load({"table": {}})
    assert (KEY in table, len(table)) == (False, 0)
