"""Drawing lines, and a terminal that is left as it was found."""

from __future__ import annotations

import os
import pty
import sys
import termios

import pytest
from rich.text import Text

from penstock.cli.top.terminal import Keys, Terminal, is_terminal, styled
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


def test_markup_in_names_is_text() -> None:
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
