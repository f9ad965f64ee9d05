"""Keys and what they change."""

from __future__ import annotations

import pytest

from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.view import SORTS, View
from penstock.cluster.figures import NodeFigures
from tests.unit.cluster.samples import at, busy_cluster, topic


@pytest.fixture
def view() -> View:
    return View(busy_cluster())


def press(view: View, *keys: str) -> None:
    for key in keys:
        view.press(key)


def names(view: View) -> list[str]:
    return [row.name for row in view.rows()]


def test_sorting_goes_round_and_turns(view: View) -> None:
    assert names(view) == ["clicks", "orders"]
    press(view, "s")
    assert (view.sort, names(view)) == ("lag", ["orders", "clicks"])
    press(view, "r")
    assert names(view) == ["clicks", "orders"]
    press(view, *"s" * (len(SORTS) - 1))
    assert (view.sort, view.reversed) == ("name", False)


def test_what_comes_to_a_topic_is_its_own_and_not_the_sum_of_its_readers(view: View) -> None:
    (orders,) = (row for row in view.rows() if row.name == "orders")
    press(view, "down", "enter")
    assert view.topic == "orders"
    rows = view.rows()
    assert sum(row.rate_in or 0 for row in rows) == 2010
    added = view.total(rows)
    assert (added.rate_in, added.rates) == (1010, orders.rates)
    assert (added.rate_out, added.lag) == (1522.5, 2052)


def test_the_filter(view: View) -> None:
    press(view, "/", "O", "R", "q", "backspace")
    assert view.editing
    assert not view.quit
    assert names(view) == ["orders"]
    press(view, "enter", "s")
    assert (view.filter, view.sort) == ("OR", "lag")
    press(view, "escape")
    assert len(view.rows()) == 2
    press(view, "/", "x", "escape")
    assert (view.filter, view.editing) == ("", False)


def test_the_filter_has_a_limit(view: View) -> None:
    press(view, "/", *"x" * 1000)
    assert len(view.filter) == 64


def test_opening_a_topic_and_going_back_to_the_same_row(view: View) -> None:
    press(view, "down", "enter")
    assert view.topic == "orders"
    assert names(view) == ["bill", "g", "ship", "spark"]
    press(view, "down", "down", "enter")
    assert view.topic == "orders"
    assert view.cursor(view.rows()) == 2
    press(view, "left")
    assert (view.topic, view.cursor(view.rows())) == ("", 1)


def test_the_cursor_stays_on_the_page(view: View) -> None:
    press(view, "up", "page up")
    assert view.cursor(view.rows()) == 0
    press(view, "end", "page down", "down")
    assert view.cursor(view.rows()) == 1
    press(view, "home")
    assert view.cursor(view.rows()) == 0


def test_nothing_to_choose() -> None:
    view = View(Cluster())
    press(view, "down", "enter", "end")
    assert (view.topic, view.cursor(view.rows()), view.chosen([])) == ("", -1, None)


def test_nodes_help_and_the_end(view: View) -> None:
    press(view, "n")
    assert len(view.rows()) == 3
    press(view, "?", "s")
    assert (view.help, view.sort) == (False, "name")
    press(view, "?", "q")
    assert view.quit


def test_held_figures_stay(view: View) -> None:
    press(view, " ")
    view.cluster.put(at("10.0.0.1:4151", 9, topic("new")))
    assert names(view) == ["clicks", "orders"]
    press(view, " ")
    view.cluster.put(at("10.0.0.1:4151", 9, topic("new")))
    assert names(view) == ["new", "orders"]


def test_a_node_that_dies_takes_its_rows_along_and_comes_back(view: View) -> None:
    view.cluster.put(NodeFigures("10.0.0.1:4151", 9, error="timed out"))
    assert names(view) == ["orders"]
    view.cluster.drop("10.0.0.1:4151")
    assert [node.address for node in view.cluster.all()] == ["10.0.0.2:4151", "10.0.0.3:4151"]


@pytest.mark.parametrize("key", ["x", "Z", "~", "é"])
def test_other_keys_do_nothing(view: View, key: str) -> None:
    press(view, key)
    assert not view.quit
