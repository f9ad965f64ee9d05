"""Options of a client library: the kind of each, its range, and how a text becomes its value.

An option is declared once, as a field of a client's ``Config``; tools set it by its name
(``--consumer-opt msg_timeout,3s``), and the table of the documentation is made of the same
declarations. The texts of refusals are go-nsq's (NSQ spec 7.1).
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.errors import ConfigError
from penstock.core.quote import quote
from penstock.core.settings.option_kinds import BOOL, DURATION, INT
from penstock.core.units import SECOND, format_duration
from penstock.net.address import split_host_port

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_UNTYPED: Final = "invalid value type"


class Kind:
    """The form of one kind of value, read and shown; the base is a text."""

    word = "text"

    def read(self, text: str) -> Any:
        """The value of a text; ValueError holds go-nsq's reason."""
        return text

    def show(self, value: Any) -> str:
        """The value as ranges, refusals and the documentation show it."""
        return str(value)


class Switch(Kind):
    """A switch, on or off."""

    word = "bool"

    def read(self, text: str) -> bool:
        return BOOL.from_config(text)

    def show(self, value: Any) -> str:
        return BOOL.show(value)


class Whole(Kind):
    """A whole number within bounds."""

    word = "int"

    def read(self, text: str) -> int:
        return INT.from_config(text)


class Count(Kind):
    """A whole number that cannot be negative."""

    word = "int"

    def read(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
        return int(text)


class Fraction(Kind):
    """A number within bounds."""

    word = "float"

    def read(self, text: str) -> float:
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
        return float(text)


class Seconds(Kind):
    """A duration: seconds in a program, with a unit (``250ms``, ``1m30s``) as a text."""

    word = "duration"

    def read(self, text: str) -> float:
        nanoseconds: int = DURATION.from_config(text)
        return nanoseconds / SECOND

    def show(self, value: float) -> str:
        return format_duration(round(value * SECOND))


class Address(Kind):
    """A host and its port."""

    word = "host:port"

    def read(self, text: str) -> str:
        split_host_port(text)
        return text


class OneOf(Kind):
    """One of a few words."""

    def __init__(self, *words: str, empty: str, refusal: str) -> None:
        self.words = words
        self.word = ", ".join(words)
        self._empty = empty
        self._refusal = refusal

    def read(self, text: str) -> str:
        word = text or self._empty
        if word not in self.words:
            raise ValueError(self._refusal.format(quote(text)))
        return word


class File(Kind):
    """The path of a file that can be read."""

    word = "path"

    def read(self, text: str) -> str:
        try:
            with open(text, "rb"):
                return text
        except OSError as error:
            raise ValueError((error.strerror or str(error)).lower()) from None


class CodeOnly(Kind):
    """An object that no text can stand for."""

    word = "object"

    def read(self, text: str) -> Any:
        raise ValueError(_UNTYPED)


TEXT: Final = Kind()
SWITCH: Final = Switch()
WHOLE: Final = Whole()
COUNT: Final = Count()
FRACTION: Final = Fraction()
SECONDS: Final = Seconds()
ADDRESS: Final = Address()
FILE: Final = File()
CODE_ONLY: Final = CodeOnly()


@dataclass(frozen=True, slots=True)
class Option:
    """One option: ``least`` and ``most`` are inclusive bounds, None where there is none."""

    name: str
    default: Any
    kind: Kind
    help: str
    least: float | None = None
    most: float | None = None

    def read(self, value: str | bool) -> Any:
        """The value of a text, or of True for an option named without one. Raises ConfigError."""
        if isinstance(value, bool):
            if self.kind is not SWITCH:
                raise self._unreadable("true" if value else "false", _UNTYPED)
            return value
        try:
            read = self.kind.read(value)
        except ValueError as error:
            raise self._unreadable(value, str(error)) from None
        self.check(read)
        return read

    def check(self, value: Any) -> None:
        """Raise ConfigError for a value that this option cannot have."""
        if isinstance(self.kind, OneOf) and value not in self.kind.words:
            raise ConfigError(f"invalid {self.name} ! {quote(str(value))} is not {self.kind.word}")
        if self.kind is ADDRESS and value:
            try:
                split_host_port(value)
            except ValueError as error:
                raise self._unreadable(value, str(error)) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"invalid {self.name} ! {value} is not a finite number")
        if self.least is not None and not value >= self.least:
            raise self._out_of_range(value, "<", self.least)
        if self.most is not None and value > self.most:
            raise self._out_of_range(value, ">", self.most)

    @property
    def range(self) -> str:
        """The option's bounds in a few words, for the documentation."""
        shown = [
            "" if bound is None else self.kind.show(bound) for bound in (self.least, self.most)
        ]
        if shown[1]:
            return f"{shown[0]} to {shown[1]}"
        return f"at least {shown[0]}" if shown[0] else ""

    def _unreadable(self, value: str, why: str) -> ConfigError:
        return ConfigError(f"failed to coerce option {self.name} ({value}) - {why}")

    def _out_of_range(self, value: Any, sign: str, bound: float) -> ConfigError:
        show = self.kind.show
        return ConfigError(f"invalid {self.name} ! {show(value)} {sign} {show(bound)}")


def option(
    default: Any,
    kind: Kind,
    help: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
    shown: bool = True,
) -> Any:
    """A field of a dataclass of options; without ``shown`` it is left out of the ``repr``."""
    known = {"kind": kind, "help": help, "least": least, "most": most}
    return dataclasses.field(default=default, repr=shown, metadata=known)


def options_of(owner: Any) -> dict[str, Option]:
    """The options that a dataclass, or an instance of one, declares, by name."""
    return {
        each.name: Option(name=each.name, default=each.default, **each.metadata)
        for each in dataclasses.fields(owner)
    }
