"""Declarations of a source's options, each the parser and the documentation of its option.

An option is a field of ``Settings``. Spark hands names over in lower case, so case does not matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from penstock.spark.errors import OptionError

Parser: TypeAlias = Callable[[str, str], Any]
"""From an option's name and text to its value; raises OptionError."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``shown`` is its default as the documentation has it."""

    name: str
    parse: Parser
    help: str
    shown: str


def option(
    name: str, parse: Parser, default: Any, help: str, *, shown: str = "", secret: bool = False
) -> Any:
    """A field of a dataclass that is set by the option ``name``."""
    declared = Option(name, parse, help, shown)
    return dataclasses.field(default=default, repr=not secret, metadata={"option": declared})


def options_of(settings: type[Any]) -> Iterator[tuple[str, Option]]:
    """The options declared in a dataclass, with the names of their fields."""
    for field in dataclasses.fields(settings):
        if "option" in field.metadata:
            yield field.name, field.metadata["option"]


def parse(settings: type[Any], options: Mapping[str, str], others: set[str]) -> dict[str, Any]:
    """The fields that these options set. Raises OptionError for an unknown or unusable one.

    ``others`` are options in lower case that Spark itself sets.
    """
    given = {key.lower(): value for key, value in options.items()}
    fields: dict[str, Any] = {}
    names = []
    for field, declared in options_of(settings):
        names.append(declared.name)
        if declared.name.lower() in given:
            fields[field] = declared.parse(declared.name, given.pop(declared.name.lower()))
    for unknown in sorted(set(given) - others):
        raise OptionError(f"format nsq knows no option {unknown}" + _nearest(unknown, names))
    return fields


def _nearest(unknown: str, names: list[str]) -> str:
    lower = {name.lower(): name for name in names}
    near = get_close_matches(unknown, lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near else ""


def table(settings: type[Any]) -> str:
    """The options as a table of the documentation, in Markdown."""
    rows = ["| option | default | |", "|---|---|---|"]
    for _, declared in options_of(settings):
        shown = f"`{declared.shown}`" if declared.shown else ""
        rows.append(f"| `{declared.name}` | {shown} | {declared.help} |")
    return "\n".join(rows) + "\n"


# --- kinds of values ------------------------------------------------------------------------------


def text(name: str, given: str) -> str:
    """The text as it is."""
    return given


def texts(name: str, given: str) -> tuple[str, ...]:
    """Texts separated by commas; ``http://`` in front of an address is left out."""
    parts = (part.strip().removeprefix("http://").rstrip("/") for part in given.split(","))
    return tuple(part for part in parts if part)


def positive(name: str, given: str) -> int:
    """A whole number from 1 on."""
    if not given.strip().isdecimal() or int(given) < 1:
        raise OptionError(f"{name} must be a positive whole number, not {given!r}")
    return int(given)


def seconds(name: str, given: str) -> float:
    """Whole seconds."""
    return float(positive(name, given))


def boolean(name: str, given: str) -> bool:
    """true or false."""
    word = given.strip().lower()
    if word not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {given!r}")
    return word == "true"


def one_of(*words: str) -> Parser:
    """One of these words."""

    def parse_word(name: str, given: str) -> str:
        if given not in words:
            allowed = " or ".join(f'"{word}"' for word in words)
            raise OptionError(f"{name} must be {allowed}, not {given!r}")
        return given

    return parse_word
