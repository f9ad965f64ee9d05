"""Options of a client library: fields of its ``Config``, set by their names from texts.

A tool gives them as ``--consumer-opt msg_timeout,3s``, and the table of the documentation is made
of the same declarations. Their kinds are those of programs' options, and a few more. The texts of
refusals are go-nsq's (NSQ spec 7.1).
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.errors import ConfigError
from penstock.core.quote import quote
from penstock.core.settings.option_kinds import Duration, Float, Int, Kind
from penstock.core.units import SECOND, format_duration

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_UNTYPED: Final = "invalid value type"


class Count(Int):
    """A whole number that cannot be negative."""

    def from_config(self, value: str) -> int:
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"strconv.ParseUint: parsing {quote(value)}: invalid syntax")
        # Of any size: go-nsq lets 16 bits wrap silently (NSQ spec 7.1), here the bounds refuse it.
        return int(value)


class Fraction(Float):
    """A number within bounds."""

    def from_config(self, value: str) -> float:
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"strconv.ParseFloat: parsing {quote(value)}: invalid syntax")
        return float(value)


class Seconds(Duration):
    """A duration: seconds in a program, with a unit (``250ms``, ``1m30s``) as a text."""

    def from_config(self, value: str) -> float:  # type: ignore[override]
        return super().from_config(value) / SECOND

    def show(self, value: float) -> str:
        return format_duration(round(value * SECOND))


class OneOf(Kind):
    """One of a few words."""

    def __init__(self, *words: str, empty: str, refusal: str) -> None:
        self.words = words
        self.placeholder = ", ".join(words)
        self._empty = empty
        self._refusal = refusal

    def from_config(self, value: str) -> str:
        word = value or self._empty
        if word not in self.words:
            raise ValueError(self._refusal.format(quote(value)))
        return word


class File(Kind):
    """The path of a file that can be read."""

    placeholder = "path"

    def from_config(self, value: str) -> str:
        try:
            with open(value, "rb"):
                return value
        except OSError as error:
            raise ValueError((error.strerror or str(error)).lower()) from None


class CodeOnly(Kind):
    """An object that no text can stand for."""

    placeholder = "object"

    def from_config(self, value: str) -> Any:
        raise ValueError(_UNTYPED)


COUNT: Final = Count()
FRACTION: Final = Fraction()
SECONDS: Final = Seconds()
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
            if not self.kind.is_switch:
                raise self._unreadable("true" if value else "false", _UNTYPED)
            return value
        read = self._read(value)
        self.check(read)
        return read

    def check(self, value: Any) -> None:
        """Raise ConfigError for a value that this option cannot have."""
        if isinstance(self.kind, OneOf) and value not in self.kind.words:
            raise ConfigError(
                f"invalid {self.name} ! {quote(str(value))} is not {self.kind.placeholder}"
            )
        if self.kind.is_checked and value:
            self._read(value)
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

    def _read(self, value: str) -> Any:
        try:
            return self.kind.from_config(value)
        except ValueError as error:
            raise self._unreadable(value, str(error)) from None

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
