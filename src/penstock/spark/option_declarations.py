"""Declarations of a source's options: one table is their parser, documentation and check.

An option is a field of ``Settings``. Spark hands names over in lower case, so case does not matter.
An alias is what users of another source type for the same option.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

from penstock.spark.errors import OptionError
from penstock.spark.timestamps import duration_ns
from penstock.spark.warn_once import WarnOnce

Parser: TypeAlias = Callable[[str, str], Any]
"""From an option's name and text to its value; raises OptionError."""
Read: TypeAlias = Literal["batch", "stream"]

# Spark's name for the argument of load() is not what its user typed.
_TYPED: Final = {"path": 'load("...")'}
_ONLY: Final = {"batch": " Batch reads only.", "stream": " Streams only."}
WHOLE_MAX: Final = 2**63 - 1
"""The largest of whole numbers: those of nodes and of Java have 64 bits."""
_DIGITS_MAX: Final = len(str(WHOLE_MAX))
_PORT_MAX: Final = 65_535
_YEAR_S: Final = 365 * 24 * 3600
# Of this process, as each query parses its options several times.
_once = WarnOnce()


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``shown`` is its default as the documentation has it.

    ``only`` names the one kind of read that it is for.
    """

    name: str
    parse: Parser
    help: str
    shown: str = ""
    aliases: tuple[str, ...] = ()
    only: Read | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)

    def given(self, options: Mapping[str, str]) -> str | None:
        """The name by which options (keys in lower case) give it; None if they do not.

        Raises OptionError when they do so twice.
        """
        given = [name for name in self.names if name.lower() in options]
        if len(given) > 1:
            typed = " and ".join(_TYPED.get(name, name) for name in given)
            raise OptionError(f"{typed} are the same option: give one of them")
        return given[0] if given else None

    def row(self) -> str:
        """The option's row in a table of the documentation."""
        shown = f"`{self.shown}`" if self.shown else ""
        also = ", ".join(f"`{_TYPED.get(alias, alias)}`" for alias in self.aliases)
        only = _ONLY[self.only] if self.only else ""
        return f"| `{self.name}` | {shown} | {self.help}{only}" + (
            f" Also {also}. |" if also else " |"
        )


def option(
    name: str,
    parse: Parser,
    default: Any,
    help: str,
    *,
    shown: str | None = None,
    secret: bool = False,
    aliases: tuple[str, ...] = (),
    only: Read | None = None,
) -> Any:
    """A field of a dataclass that is set by the option ``name``.

    ``shown`` is the default as the documentation has it, where it is not the field's.
    """
    text = _shown(default) if shown is None else shown
    declared = Option(name, parse, help, text, aliases, only)
    return dataclasses.field(default=default, repr=not secret, metadata={"option": declared})


def _shown(default: Any) -> str:
    """A default as its user would write it; empty where there is none."""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default or "")


def options_of(settings: type[Any]) -> Iterator[tuple[str, Option]]:
    """The options declared in a dataclass, with the names of their fields; inherited ones last."""
    own = settings.__annotations__
    for field in sorted(dataclasses.fields(settings), key=lambda field: field.name not in own):
        if "option" in field.metadata:
            yield field.name, field.metadata["option"]


def parse(
    settings: type[Any],
    options: Mapping[str, str],
    others: Iterable[str] = (),
    *,
    read: Read | None = None,
    format: str = "nsq",
) -> dict[str, Any]:
    """The fields that these options set. Raises OptionError for an unknown or unusable one.

    ``others`` are options in lower case that Spark itself sets. With ``read``, options must be of
    use to this kind of read: one that would bound it is refused where it cannot, and of the rest
    the log says that they do nothing.
    """
    require_known(settings, (key for key in options if key.lower() not in others), format)
    given = {key.lower(): value for key, value in options.items()}
    fields: dict[str, Any] = {}
    for field, declared in options_of(settings):
        name = declared.given(given)
        if name is not None:
            _require_use(declared, name, read)
            fields[field] = declared.parse(name, given[name.lower()])
    return fields


def require_known(settings: type[Any], names: Iterable[str], format: str = "nsq") -> None:
    """Raise OptionError for names that are not options, with the nearest option of each."""
    told = [
        f"option {name}" + (f"; did you mean {nearest}?" if nearest else "")
        for name, nearest in unknown(settings, names).items()
    ]
    if told:
        raise OptionError(f"format {format} knows no " + ", no ".join(told))


def unknown(settings: type[Any], names: Iterable[str]) -> dict[str, str]:
    """The names that are not options, each with the nearest option, empty if none is near.

    It needs neither Spark nor values, so that a file of options can be checked before Spark starts.
    """
    known = {name.lower(): name for _, each in options_of(settings) for name in each.names}
    strangers = sorted(name for name in names if name.lower() not in known)
    nearest = {name: get_close_matches(name.lower(), known, n=1) for name in strangers}
    return {name: known[near[0]] if near else "" for name, near in nearest.items()}


def named(settings: type[Any], options: Mapping[str, str]) -> dict[str, str]:
    """The options under the names in the documentation, which have aliases; others as they are.

    Raises OptionError for an option that is given twice.
    """
    left = {key.lower(): key for key in options}
    found: dict[str, str] = {}
    for _, each in options_of(settings):
        given = each.given(left)
        if given is not None:
            found[each.name] = options[left.pop(given.lower())]
    return found | {key: options[key] for key in left.values()}


def _require_use(declared: Option, name: str, read: Read | None) -> None:
    if read is None or declared.only in (None, read):
        return
    if declared.only == "batch":
        raise OptionError(f"{name} is for batch reads only: a stream has no end")
    _once.warn(f"option {name} is for streams only and does nothing in a batch read")


def table(settings: type[Any], beside: type[Any] | None = None) -> str:
    """The options as a table of the documentation, in Markdown; without those of ``beside``."""
    known = [declared for _, declared in options_of(beside)] if beside else []
    rows = [declared.row() for _, declared in options_of(settings) if declared not in known]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows]) + "\n"


def require_columns(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raise OptionError unless these are some of the columns that are known, each once."""
    if not set(asked) <= set(known) or len(set(asked)) < len(asked):
        raise OptionError(
            f"columns must be some of {', '.join(known)}, each once, not {', '.join(asked)}"
        )


# --- kinds of values ------------------------------------------------------------------------------


def text(name: str, given: str) -> str:
    """The text as it is."""
    return given


def words(name: str, given: str) -> tuple[str, ...]:
    """Words separated by commas."""
    return tuple(word.strip() for word in given.split(","))


def texts(name: str, given: str) -> tuple[str, ...]:
    """Texts separated by commas; ``http://`` in front of an address is left out."""
    parts = (part.strip().removeprefix("http://").rstrip("/") for part in given.split(","))
    return tuple(part for part in parts if part)


def pattern(name: str, given: str) -> str:
    """A regular expression."""
    try:
        re.compile(given)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"{name}={given!r} is not a regular expression: {error}") from None
    return given


def whole(given: str) -> int | None:
    """The whole number from 0 to ``WHOLE_MAX`` that a text is; None for any other text."""
    digits = given.strip()
    if not digits.isdecimal() or len(digits) > _DIGITS_MAX or int(digits) > WHOLE_MAX:
        return None
    return int(digits)


def positive(name: str, given: str) -> int:
    """A whole number from 1 on, of 64 bits as Java's are."""
    number = whole(given)
    if not number:
        raise OptionError(f"{name} must be a positive whole number, not {given[:100]!r}")
    return number


def port(name: str, given: str) -> int:
    """A port of TCP."""
    number = positive(name, given)
    if number > _PORT_MAX:
        raise OptionError(f"{name} must be a port, at most {_PORT_MAX}, not {given!r}")
    return number


def seconds(name: str, given: str) -> float:
    """Whole seconds, a year at most: sockets take a few hundred."""
    return float(min(positive(name, given), _YEAR_S))


def duration(name: str, given: str) -> int:
    """Nanoseconds of a duration such as ``30s`` or ``1h30m``."""
    try:
        return duration_ns(given.strip())
    except ValueError:
        raise OptionError(
            f"{name} must be a duration such as 30s or 1h30m, not {given!r}"
        ) from None


def printable(most: int) -> Parser:
    """A text of 1 to ``most`` printable characters, as nodes take names."""

    def parse_text(name: str, given: str) -> str:
        if not (0 < len(given) <= most and given.isprintable()):
            raise OptionError(
                f"{name} must be 1 to {most} printable characters, not {given[:300]!r}"
            )
        return given

    return parse_text


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
