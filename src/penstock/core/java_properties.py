"""Java's ``.properties`` texts: what RocketMQ's configuration files and config commands hold."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LOGICAL_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:\r\n|\r|\n)[ \t\f]*")
_KEY = re.compile(r"((?:\\.|[^\\ \t\f:=])*)[ \t\f]*(?:[:=][ \t\f]*)?")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def loads(text: str) -> dict[str, str]:
    """Names and values; of equal names the last counts. Lines of ``#`` or ``!`` are comments."""
    found: dict[str, str] = {}
    for line in _LOGICAL_LINE_END.sub(r"\1", text).splitlines():
        line = line.lstrip(" \t\f")
        if line and line[0] not in "#!":
            key = _KEY.match(line)
            assert key is not None
            found[_unescape(key[1])] = _unescape(line[key.end() :])
    return found


def dumps(values: Mapping[str, object]) -> str:
    """``name=value`` lines as RocketMQ's own tools print and read them, in the order given."""
    return "".join(f"{name}={_shown(value)}\n" for name, value in values.items())


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        letter = found[1]
        return chr(int(letter[1:], 16)) if len(letter) == 5 else _ESCAPES.get(letter, letter)

    return _ESCAPE.sub(plain, text)
