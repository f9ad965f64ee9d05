r"""Java's ``.properties`` format: configuration files of RocketMQ, and bodies of its commands.

Lines end at CR, LF and CRLF and nowhere else, as for ``java.util.Properties``: VT, NEL or U+2028
inside a value begin no other property. Written texts are ASCII, so Java reads them as we do,
in whatever encoding it takes them to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from penstock.core.errors import ConfigError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\ \t\f:=])*)[ \t\f]*(?:[:=][ \t\f]*)?")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = re.compile(r"[^ -~]|\\")
_SPECIAL_IN_KEY = re.compile(r"[^!-~]|[\\=:#!]")
_SHORT = {char: f"\\{letter}" for letter, char in _ESCAPES.items()}


def loads(text: str) -> dict[str, str]:
    r"""Names and values; the last of equal names counts. Lines that start with # or ! are comments.

    Raises ConfigError for a broken ``\u`` escape.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        found[_unescape(key[1])] = _unescape(line[key.end() :])
    return found


def dumps(values: Mapping[str, object]) -> str:
    """Write ``name=value`` lines in the order given, which ``loads`` and Java read back unchanged.

    Only characters with a special meaning are escaped. ``java.util.Properties`` also escapes
    ``:=#!`` inside values, where they mean nothing; here they stay, as RocketMQ's tools print them.
    """
    return "".join(f"{_shown_key(name)}={_shown(value)}\n" for name, value in values.items())


def _logical_lines(text: str) -> Iterator[str]:
    """The lines joined with their continuation lines, without comments and empty lines."""
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and line[:1] in ("", "#", "!"):
            continue  # a backslash at its end does not continue a comment
        if (len(line) - len(line.rstrip("\\"))) % 2:  # odd: the last one is not escaped
            parts += [line[:-1]] if line[:-1] else []
            continue
        yield "".join((*parts, line))
        parts.clear()
    if parts:
        yield "".join(parts)


def _shown_key(name: str) -> str:
    return _SPECIAL_IN_KEY.sub(_escaped, name)


def _shown(value: object) -> str:
    text = _SPECIAL.sub(_escaped, str(value).lower() if isinstance(value, bool) else str(value))
    return f"\\{text}" if text.startswith(" ") else text


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    if " " <= char <= "~":
        return f"\\{char}"
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_plain, text)
    try:  # a character beyond U+FFFF is two escapes
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{text[:100]!r} has half a character: \\ud800 to \\udfff come in pairs"
        ) from None


def _plain(found: re.Match[str]) -> str:
    letter = found[1]
    if len(letter) == 5:
        return chr(int(letter[1:], 16))
    if letter == "u":
        raise ConfigError("\\u must be followed by four hexadecimal digits; \\\\ is a backslash")
    return _ESCAPES.get(letter, letter)
