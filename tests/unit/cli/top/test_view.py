"""What a user does to ``penstock top``: keys and views, and a terminal left as it was found."""

from __future__ import annotations

import os
import pty
import sys
import termios

import pytest
from rich.text import Text

from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.terminal import Keys, Terminal, is_terminal, styled
from penstock.cli.top.view import SORTS, View
from penstock.cluster.figures import NodeFigures
from tests.unit.cluster.samples import at, busy_cluster, topic
from tools.harness.processes import text_on


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page up", "page down", "home", "end"]),
        (b"\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[1;5A", ["up"]),  # with Ctrl
        (b"\x1b[15~", []),
        (b"\x01\x02a", ["a"]),
        ("é/".encode(), ["é", "/"]),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert Keys().feed(data) == keys


def test_a_sequence_in_pieces() -> None:
    keys = Keys()
    assert keys.feed(b"s\x1b[") == ["s"]
    assert keys.feed(b"5") == []
    assert keys.feed(b"~\xc3") == ["page up"]
    assert keys.feed(b"\xa9") == ["é"]


def test_lines_with_colours_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = Text("a ", style="").append("b", style="red")
    assert styled(line, 10) == "a \x1b[31mb\x1b[0m"
    assert styled(line, 10, colour=False) == "a b"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in styled(line, 10)
    assert styled(Text("[red]x[/red]"), 20, colour=False) == "[red]x[/red]"


def break_off(terminal: Terminal, before: list[object]) -> None:
    with terminal:
        assert termios.tcgetattr(sys.stdin) != before
        terminal.draw([Text("hello")], 20)
        raise RuntimeError


def test_the_terminal_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "r+b", buffering=0) as raw:
        reader = open(raw.fileno(), closefd=False)  # noqa: SIM115
        writer = open(raw.fileno(), "w", closefd=False)  # noqa: SIM115
        monkeypatch.setattr(sys, "stdin", reader)
        monkeypatch.setattr(sys, "stdout", writer)
        monkeypatch.setenv("TERM", "xterm")
        assert is_terminal()
        before = termios.tcgetattr(reader)
        terminal = Terminal()
        with pytest.raises(RuntimeError):
            break_off(terminal, before)
        assert termios.tcgetattr(reader) == before
        terminal.leave()  # again does nothing
        terminal.draw([Text("unseen")], 20)
        monkeypatch.setenv("TERM", "dumb")
        assert not is_terminal()
        reader.close()
        writer.close()
    seen = text_on(master)
    assert seen.startswith("\x1b[?1049h\x1b[?25l")
    assert "hello" in seen
    assert seen.endswith("\x1b[?25h\x1b[?1049l")


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
    for keys, row in ((("up", "page up"), 0), (("end", "page down", "down"), 1), (("home",), 0)):
        press(view, *keys)
        assert view.cursor(view.rows()) == row
    nothing = View(Cluster())
    press(nothing, "down", "enter", "end")
    assert (nothing.topic, nothing.cursor(nothing.rows()), nothing.chosen([])) == ("", -1, None)


def test_nodes_help_and_the_end(view: View) -> None:
    press(view, "n", "x", "Z", "~", "é")
    assert len(view.rows()) == 3
    press(view, "?", "s")
    assert (view.help, view.sort, view.quit) == (False, "name", False)
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


def test_the_newest_of_each_node_by_address() -> None:
    cluster = Cluster()
    for address, at_ns in (("b:1", 1), ("a:1", 2), ("b:1", 3)):
        cluster.put(NodeFigures(address, at_ns))
    assert [(node.address, node.at_ns) for node in cluster.all()] == [("a:1", 2), ("b:1", 3)]
    for _ in range(2):
        cluster.drop("a:1")
    assert [node.address for node in cluster.all()] == ["b:1"]
    held = Cluster(held=True)
    held.put(NodeFigures("a:1", 1))
    assert held.all() == []
