"""The terminal itself: its own screen, keys as they are pressed, and back as it was before."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import shutil
import sys
import termios
import tty
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

_NAMES = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end",
    "1~": "home", "4~": "end", "5~": "page up", "6~": "page down", "7~": "home", "8~": "end",
}  # fmt: skip
_SIMPLE = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}
_SEQUENCE = re.compile(r"\x1b[\[O]([0-9;]*)([A-Za-z~])")
_BEGUN = re.compile(r"\x1b[\[O][0-9;]{0,8}")


class Keys:
    """A decoder of what is typed. A sequence may come in two reads; a lone escape is a key."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys in these bytes: printable characters, and names such as ``page down``."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        keys = []
        while text:
            found = _SEQUENCE.match(text)
            if found is not None:
                arguments, final = found.groups()
                name = _NAMES.get(arguments + final if final == "~" else final)
                if name is not None:
                    keys.append(name)
                text = text[found.end() :]
            elif _BEGUN.fullmatch(text):
                self._rest = text
                break
            else:
                key = _SIMPLE.get(text[0], text[0])
                if len(key) > 1 or key.isprintable():
                    keys.append(key)
                text = text[1:]
        return keys


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_READ_BYTES = 1024


def is_terminal() -> bool:
    """True if standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class Terminal:
    """Standard output's terminal between ``enter`` and ``leave``; keys if stdin is one as well."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._entered = False
        self.has_keys = sys.stdin.isatty()

    def __enter__(self) -> Terminal:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Take the other screen; keys come one by one and are not shown."""
        if self._entered:
            return
        self._entered = True
        if self.has_keys:
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._write(_ENTER)

    def leave(self) -> None:
        """Everything as it was. A terminal that is gone does not mind."""
        if not self._entered:
            return
        self._entered = False
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        if self._before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            size = shutil.get_terminal_size()
        return max(1, size.columns), max(1, size.lines)

    def read(self) -> bytes:
        """The bytes that were typed; empty when the terminal is gone."""
        try:
            return os.read(sys.stdin.fileno(), _READ_BYTES)
        except OSError:
            return b""

    def draw(self, lines: Sequence[Text], width: int) -> None:
        """Show these lines from the top, in one write so that nothing flickers."""
        if not self._entered:
            return
        shown = [styled(line, width) + _CLEAR_LINE for line in lines]
        with contextlib.suppress(OSError):  # a terminal that is gone says so by a signal as well
            self._write(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def styled(line: Text, width: int, *, colour: bool = True) -> str:
    """A line with the escapes of its colours; NO_COLOR is respected."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colour,
        legacy_windows=False,
        color_system="standard" if colour else None,
    )
    console.print(line, end="", no_wrap=True, crop=False, overflow="ignore", highlight=False)
    return buffer.getvalue()
