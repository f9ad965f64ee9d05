"""The output of nsq_tail: messages as they are, or coloured for a person at a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# What moves the cursor, rings the bell or turns the text around, and so could deceive a reader.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")


class View(Protocol):
    """The output for messages of one topic that arrived together."""

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        ...


class PlainView:
    """Each body and a line end, behind ``topic | `` where that is wanted."""

    def __init__(self, print_topic: bool) -> None:
        self._print_topic = print_topic

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        prefix = f"{topic} | ".encode() if self._print_topic else b""
        return prefix + (b"\n" + prefix).join(bodies) + b"\n"


class ColourView:
    """JSON in colours, topics in a column, and nothing that could play tricks on a terminal."""

    def __init__(self, console: Console, topics: Sequence[str], print_topic: bool) -> None:
        from rich.highlighter import JSONHighlighter

        self._console = console
        self._json = JSONHighlighter()
        self._width = max(map(len, topics)) if print_topic else 0
        self._colours = {
            topic: _COLOURS[number % len(_COLOURS)] for number, topic in enumerate(topics)
        }

    def render(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes to write."""
        with self._console.capture() as captured:
            for body in bodies:
                self._show(topic, body)
        return captured.get().encode()

    def _show(self, topic: str, body: bytes) -> None:
        from rich.text import Text

        if self._width:
            # The lines after a body's first stand under it.
            shown = Text()
            for number, line in enumerate(self._body(body).split("\n", allow_blank=True)):
                name = topic if not number else ""
                shown.append("\n" if number else "")
                shown.append(f"{name:<{self._width}}", self._colours[topic])
                shown.append(" │ ", "bright_black").append_text(line)
        else:
            shown = self._body(body)
        self._console.print(shown, soft_wrap=True)

    def _body(self, body: bytes) -> Text:
        from rich.text import Text

        decoded = body.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        text = Text(_CONTROL.sub(lambda found: _escape(found[0]), decoded))
        if decoded.lstrip()[:1] in ("{", "["):
            self._json.highlight(text)
        text.highlight_regex(r"\\x[0-9a-f]{2}|\\u20[0-9a-f]{2}", "bright_black")
        return text


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"
