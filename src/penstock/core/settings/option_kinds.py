"""The kinds of option values: how each is read from a flag, from TOML, and shown as text.

Flags follow Go's ``flag`` package; configuration values follow NSQ's loose rules (nsqd's manual,
"configuration file"). Durations are whole nanoseconds; in a configuration file a bare integer
means milliseconds.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Any

from penstock.core.quote import quote
from penstock.core.units import DURATION_FORM, MILLISECOND, format_duration, parse_duration

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
# What Go's ParseInt takes with base 0: prefixes, and underscores between digits.
_INT = re.compile(
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])+|0|[1-9](?:_?[0-9])*)"
)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Kind:
    """One kind of value, with the way to read and to show it; the base is a plain string."""

    placeholder = "string"  # what the usage text shows after the flag
    form = ""  # how a value is written, for those who wrote another
    is_switch = False  # a switch may stand without a value, meaning true
    is_choice = False  # a choice is checked before the other values of a configuration file
    is_checked = False  # a value that a program gives in its code is read as a text is

    def from_flag(self, text: str) -> Any:
        """The value of a flag's text; ValueError holds Go's reason."""
        return text

    def from_config(self, value: Any) -> Any:
        """The value of a TOML value; ValueError holds go-options' reason."""
        return _without_nul(value) if isinstance(value, str) else _toml_text(value)

    def accumulate(self, earlier: Any, value: Any) -> Any:
        """The value of a flag given again; ``earlier`` is None the first time, most keep the
        last.
        """
        return value

    def show(self, value: Any) -> str:
        """The value as Go's ``%v`` prints it."""
        return str(value)

    def show_default(self, value: Any) -> str:
        """The default as the usage text shows it, empty when there is nothing to say."""
        return f"{quote(value)}" if value else ""


class Choice(Kind):
    """One of the values of an enumeration, in any case; ``noun`` names it in an error."""

    is_choice = True

    def __init__(self, choices: type[Enum], noun: str, placeholder: str) -> None:
        self.placeholder = placeholder
        self._choices = choices
        self._noun = noun

    def from_flag(self, text: str) -> Enum:
        try:
            return self._choices(text.lower())
        except ValueError:
            known = ", ".join(str(each.value) for each in self._choices)
            raise ValueError(f"unknown {self._noun} '{text}' ({known})") from None

    def from_config(self, value: Any) -> Enum:
        return self.from_flag(str(value))

    def show(self, value: Any) -> str:
        return str(value.value)

    show_default = show


class Bool(Kind):
    """A switch, on or off."""

    placeholder = ""
    form = "true or false"
    is_switch = True

    def from_flag(self, text: str) -> bool:
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise ValueError("parse error")

    def from_config(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        # go-options reads the integer 1 as false; that is a slip not worth keeping.
        if isinstance(value, int):
            return value != 0
        if isinstance(value, str):
            return _go_bool(value)
        raise ValueError(f"invalid bool value type {_go_type(value)}")

    def show(self, value: Any) -> str:
        return "true" if value else "false"

    def show_default(self, value: Any) -> str:
        return "true" if value else ""


class Int(Kind):
    """A whole number."""

    placeholder = "int"
    form = "a whole number"

    def from_flag(self, text: str) -> int:
        if not _INT.fullmatch(text):
            raise ValueError("parse error")
        return _in_64_bits(int(_c_octal(text), 0))

    def from_config(self, value: Any) -> int:
        if isinstance(value, str):
            if not re.fullmatch(r"[+-]?[0-9]+", value):
                raise ValueError(f"strconv.ParseInt: parsing {quote(value)}: invalid syntax")
            if not -(1 << 63) <= int(value) < 1 << 63:
                raise ValueError(f"strconv.ParseInt: parsing {quote(value)}: value out of range")
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _in_64_bits(value)
        raise ValueError(f"invalid int64 value type {_go_type(value)}")

    def show_default(self, value: Any) -> str:
        return str(value) if value else ""


class Float(Kind):
    """A number."""

    placeholder = "float"
    form = "a number"

    def from_flag(self, text: str) -> float:
        if not _FLOAT.fullmatch(text):
            raise ValueError("parse error")
        return float(text)

    def from_config(self, value: Any) -> float:
        if type(value) not in (float, int):
            raise ValueError(f"invalid float64 value type {_go_type(value)}")
        return float(value)

    def show(self, value: Any) -> str:
        return f"{value:g}"

    def show_default(self, value: Any) -> str:
        return f"{value:g}" if value else ""


class Duration(Kind):
    """A length of time in nanoseconds, written as Go does: ``1m30s``."""

    placeholder = "duration"
    form = DURATION_FORM

    def from_flag(self, text: str) -> int:
        try:
            return parse_duration(text)
        except ValueError:
            raise ValueError("parse error") from None

    def from_config(self, value: Any) -> int:
        if isinstance(value, str):
            return parse_duration(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _in_64_bits(value * MILLISECOND)
        raise ValueError(f"invalid time.Duration value type {_go_type(value)}")

    def show(self, value: Any) -> str:
        return format_duration(value)

    def show_default(self, value: Any) -> str:
        return format_duration(value) if value else ""


class _List(Kind):
    """Common base of lists: a placeholder, and repeated flags that add up."""

    placeholder = "value"

    def accumulate(self, earlier: Any, value: Any) -> Any:
        return (*(earlier or ()), *value)

    def show(self, value: Any) -> str:
        return "[" + " ".join(self._words(value)) + "]"

    def show_default(self, value: Any) -> str:
        return ",".join(self._words(value))

    def _words(self, value: Any) -> list[str]:
        return [str(item) for item in value]


class Strings(_List):
    """A list: a repeated flag (commas are not split), a TOML array, or a TOML comma list."""

    def from_flag(self, text: str) -> tuple[str, ...]:
        return (text,)

    def from_config(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(_without_nul(value).split(",")) if value else ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(map(_without_nul, value))
        raise ValueError(f"invalid []string value type {_go_type(value)}")


class Floats(_List):
    """Numbers, comma-separated or repeated; those from flags are sorted largest first."""

    def from_flag(self, text: str) -> tuple[float, ...]:
        return tuple(_float(word) for word in text.split(","))

    def accumulate(self, earlier: Any, value: Any) -> Any:
        # Go's FloatArray sorts itself, the largest first (internal/app/float_array.go).
        return tuple(sorted((*(earlier or ()), *value), reverse=True))

    def from_config(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, str):
            return tuple(_config_float(word.strip()) for word in value.split(","))
        items = value if isinstance(value, list) else [value]
        if not all(type(item) in (float, int) for item in items):
            raise ValueError(f"invalid []float64 value type {_go_type(value)}")
        return tuple(float(item) for item in items)

    def _words(self, value: Any) -> list[str]:
        return [f"{item:g}" for item in value]


class FatalFlagError(ValueError):
    """A flag value that ends the program with a bare log line and code 1, without usage."""


class LogLevel(Kind):
    """One of debug, info, warn, error, fatal, held as a level of the ``logging`` module."""

    placeholder = "value"
    is_choice = True

    def from_flag(self, text: str) -> int:
        from penstock.core.logs import parse_level

        return parse_level(text)

    def from_config(self, value: Any) -> int:
        return self.from_flag(str(value))

    def show(self, value: Any) -> str:
        from penstock.core.logs import level_word

        return level_word(value)

    show_default = show


class LogFormat(Kind):
    """``text`` or ``json``."""

    placeholder = "format"
    is_choice = True

    def from_flag(self, text: str) -> str:
        from penstock.core.logs import parse_form

        return parse_form(text)

    def from_config(self, value: Any) -> str:
        return self.from_flag(str(value))


STRING = Kind()
BOOL = Bool()
INT = Int()
FLOAT = Float()
DURATION = Duration()
STRINGS = Strings()
FLOATS = Floats()
LOG_LEVEL = LogLevel()
LOG_FORMAT = LogFormat()


def kind_of(default: Any) -> Kind:
    """The kind that a default's type implies; durations, floats and levels must be named."""
    if isinstance(default, bool):
        return BOOL
    if isinstance(default, int):
        return INT
    if isinstance(default, str):
        return STRING
    if isinstance(default, tuple):
        return STRINGS
    raise TypeError(f"no kind of option for a default of type {type(default).__name__}")


def _go_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def _float(word: str) -> float:
    value = float(word) if _FLOAT.fullmatch(word) else math.nan
    if math.isnan(value):
        # Go's FloatArray calls log.Fatalf (internal/app/float_array.go): no usage, exit code 1.
        raise FatalFlagError(f"Could not parse: {word}")
    return value


def _config_float(word: str) -> float:
    try:
        return _float(word)
    except FatalFlagError:
        raise ValueError(f"strconv.ParseFloat: parsing {quote(word)}: invalid syntax") from None


def _in_64_bits(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("value out of range")
    return value


def _c_octal(text: str) -> str:
    """Go reads 017 as octal; Python wants 0o17."""
    sign = text[0] if text[0] in "+-" else ""
    digits = text.removeprefix(sign) if sign else text
    is_octal = len(digits) > 1 and digits[0] == "0" and (digits[1].isdigit() or digits[1] == "_")
    return f"{sign}0o{digits[1:]}" if is_octal else text


def _without_nul(text: str) -> str:
    """The text, which the operating system could not take as a path or an address otherwise."""
    if "\0" in text:
        raise ValueError("it holds a NUL character")
    return text


def _toml_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _go_type(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
