from __future__ import annotations

from penstock.admin.history.row_numbers import Key, Rows


def test_a_row_for_each_key() -> None:
    rows = Rows(10)
    assert rows.row(Key("t"), 1.0) == 0
    assert rows.row(Key("t", "c"), 2.0) == 1
    assert rows.row(Key("t"), 3.0) == 0
    assert rows.find(Key("t", "c")) == 1
    assert rows.find(Key("u")) is None
    assert rows.born == [1.0, 2.0]
    assert len(rows) == 2


def test_rows_are_used_again() -> None:
    rows = Rows(2)
    rows.row(Key("a"), 1.0)
    rows.row(Key("b"), 1.0)
    assert rows.row(Key("c"), 2.0) == -1
    assert rows.refused == 1
    rows.release([0, 0])
    assert rows.find(Key("a")) is None
    assert rows.row(Key("c"), 3.0) == 0
    assert (rows.keys, rows.born, rows.refused) == ([Key("c"), Key("b")], [3.0, 1.0], 0)
