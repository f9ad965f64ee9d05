"""Go's ``flag`` package: how the programs of NSQ read a command line, with its exact texts.

``-x v``, ``-x=v``, ``--x v`` and ``--x=v`` mean the same; a switch takes its value only as
``-x=false``; parsing stops at the first word that is not a flag, or after ``--``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.nearest import did_you_mean
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.core.settings.option_kinds import FatalFlagError, Kind


class FlagError(Exception):
    """The command line is wrong; the text is Go's, to be followed by the usage and exit code 2.

    ``remedy``, which Go's programs have not, goes behind the text.
    """

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class HelpRequested(Exception):
    """``-h`` or ``-help`` was given."""


def parse_words(
    argv: Sequence[str], kinds: Mapping[str, Kind]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The flags given in ``argv`` with their values, and the words that follow the flags.

    Raises FlagError, HelpRequested, and what a kind means to end the program.
    """
    given: dict[str, Any] = {}
    words = list(argv)
    while words and _is_flag(words[0]):
        word = words.pop(0)
        if word == "--":
            break
        name, has_value, text = _split(word)
        kind = kinds.get(name)
        if kind is None:
            if name in ("help", "h"):
                raise HelpRequested
            remedy = did_you_mean(name, kinds, "-")
            raise FlagError(f"flag provided but not defined: -{name}", remedy)
        if not has_value:
            text = _next_value(name, kind, words)
        value = _value(name, kind, text)
        given[name] = kind.accumulate(given.get(name), value)
    return given, tuple(words)


def _is_flag(word: str) -> bool:
    # A dash alone is a word, as in Go's flag package (parseOne).
    return len(word) >= 2 and word[0] == "-"


def _split(word: str) -> tuple[str, bool, str]:
    name = word[2:] if word[1] == "-" else word[1:]
    if not name or name[0] in "-=":
        raise FlagError(f"bad flag syntax: {word}")
    name, equals, text = name.partition("=")
    return name, bool(equals), text


def _next_value(name: str, kind: Kind, words: list[str]) -> str:
    if kind.is_switch:
        return "true"
    if not words:
        raise FlagError(f"flag needs an argument: -{name}", _form(kind))
    return words.pop(0)


def _value(name: str, kind: Kind, text: str) -> Any:
    try:
        return kind.from_flag(text)
    except FatalFlagError:
        raise
    except ValueError as error:
        shown = quote(without_secrets(text))
        if kind.is_switch:
            text = f"invalid boolean value {shown} for -{name}: {error}"
        else:
            text = f"invalid value {shown} for flag -{name}: {error}"
        raise FlagError(text, _form(kind)) from None


def _form(kind: Kind) -> str:
    return f"; give {kind.form}" if kind.form else ""
