"""From the bytes of a terminal to the names of keys."""

from __future__ import annotations

import codecs
import re

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
