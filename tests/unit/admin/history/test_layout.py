from __future__ import annotations

import pytest

from penstock.admin.history import layout as layout_module
from penstock.admin.history.layout import Layout, Wish
from penstock.admin.history.row_numbers import Key, Rows

KEYS = [Key(), Key(node="n:1"), Key("t"), Key("t", "c"), Key("t", "@g"), Key("u")]


def rows(*keys: Key) -> Rows:
    found = Rows(100)
    for key in keys:
        found.row(key, 1.0)
    return found


def test_what_rows_are_of() -> None:
    layout = Layout(rows(*KEYS))
    assert layout.topics.nonzero()[0].tolist() == [2, 5]
    assert layout.channels.nonzero()[0].tolist() == [3]
    assert (layout.groups.tolist(), layout.others.tolist()) == ([4], [0, 1])
    assert layout.read([4]).nonzero()[0].tolist() == [2]
    assert not Layout(rows(Key("t", "@g"))).read([0]).any()  # the topic found no room


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(), [0, 1, 2, 3, 4, 5]),
        (Wish(topic="t"), [2, 3, 4]),
        (Wish(node="n:1"), [1]),
        (Wish(level="topics"), [0, 1, 2, 5]),
        (Wish(topic="t", level="topics"), [2]),
        (Wish(topic="none"), []),
    ],
)
def test_wishes(wish: Wish, expected: list[int]) -> None:
    layout = Layout(rows(*KEYS))
    assert layout.rows_of(wish).tolist() == expected
    assert layout.rows_of(wish) is layout.rows_of(wish)


def test_wishes_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "_KEPT", 3)
    layout = Layout(rows(*KEYS))
    for number in range(10):
        layout.rows_of(Wish(topic=str(number)))
    assert len(layout._known) <= 3


def test_what_stays() -> None:
    known = rows(*KEYS)
    before = Layout(known)
    assert Layout(known).stays(before).all()
    known.release([3])
    known.row(Key("t", "new"), 2.0)
    known.row(Key("v"), 2.0)
    assert Layout(known).stays(before).tolist() == [True, True, True, False, True, True, False]
