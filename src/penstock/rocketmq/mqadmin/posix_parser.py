"""Command lines as commons-cli's ``PosixParser`` reads them, which upstream's mqadmin has.

``-t name``, ``-tname``, ``--topic name``, ``--topic=name`` and any prefix of a long name that fits
one option only. Flags can be joined (``-ml``). Of an option given twice the first value counts, and
words that belong to no option are ignored. The usage is laid out as its ``HelpFormatter`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.core.nearest import did_you_mean
from penstock.rocketmq.mqadmin.errors import CommandFailed

_WIDTH: Final = 110  # of the usage, in columns
_GAP: Final = 3


class BadUsage(CommandFailed):
    """The command line does not fit the sub-command; the usage is printed, exit code 1."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Of those with ``one_of``, exactly one must be given.

    One that ``repeats`` may be given several times and keeps all values, any other its first.
    """

    letter: str
    name: str
    help: str
    takes_value: bool = True
    is_required: bool = False
    one_of: bool = False
    repeats: bool = False


def may(letter: str, name: str, help: str) -> Option:
    """An option with a value."""
    return Option(letter, name, help)


def must(letter: str, name: str, help: str) -> Option:
    """An option that has to be given."""
    return Option(letter, name, help, is_required=True)


def either(letter: str, name: str, help: str) -> Option:
    """One of a group of options, of which exactly one has to be given."""
    return Option(letter, name, help, one_of=True)


def flag(letter: str, name: str, help: str) -> Option:
    """An option without a value."""
    return Option(letter, name, help, takes_value=False)


HELP: Final = flag("h", "help", "Print help")
NAMESRV: Final = may(
    "n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'"
)
JSON: Final = Option("", "json", "Print one JSON object; the exit code shows a failure", False)
CLIENT_OPT: Final = Option(
    "",
    "client-opt",
    "Option of the client, name,value: tls_enable,true (may be repeated)",
    repeats=True,
)
COMMON: Final = (HELP, NAMESRV, JSON, CLIENT_OPT)
_BETWEEN: Final = "\0"


@dataclass(frozen=True, slots=True)
class SubCommand:
    """A sub-command: what it is called, where it is and which options it has."""

    name: str
    help: str
    home: str
    """The module under ``commands`` and the function in it, with a dot between."""
    own: tuple[Option, ...] = ()
    alias: str = ""

    @property
    def options(self) -> tuple[Option, ...]:
        """The command's own and the common options, each letter once."""
        letters = {option.letter for option in self.own}
        return (*self.own, *(option for option in COMMON if option.letter not in letters))


@dataclass(slots=True)
class ParsedOptions:
    """The options of a command line, by the long name."""

    values: dict[str, str] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """A value without blanks around it."""
        return self.values.get(name, default).strip()

    def all(self, name: str) -> list[str]:
        """The values of an option that may be repeated."""
        return self.values[name].split(_BETWEEN) if name in self.values else []

    def number(self, name: str, default: int = 0) -> int:
        """A value that is a whole number. Raises CommandFailed."""
        value = self.values.get(name)
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise CommandFailed(f"--{name} {value.strip()!r} is not a whole number") from None

    def is_true(self, name: str, default: bool = False) -> bool:
        """A value that is the word true in any case; everything else is false, as in Java."""
        value = self.values.get(name)
        return default if value is None else value.strip().lower() == "true"


def parse(command: SubCommand, words: Sequence[str]) -> ParsedOptions:
    """Read the words behind the sub-command's name. Raises BadUsage."""
    given = _Reader(command).read(words)
    missing = [
        _typed(option)
        for option in command.options
        if option.is_required and option.name not in given
    ]
    if missing:
        raise BadUsage(f"{command.name}: {' and '.join(missing)} must be given")
    group = [option for option in command.options if option.one_of]
    if group and sum(option.name in given for option in group) != 1:
        raise BadUsage(
            f"{command.name}: exactly one of {', '.join(map(_typed, group))} must be given"
        )
    return given


def _typed(option: Option) -> str:
    """An option as a person finds it in the usage: ``-t (--topic)``."""
    return f"-{option.letter} (--{option.name})" if option.letter else f"--{option.name}"


class _Reader:
    """A reader of a command line's words, one after the other."""

    def __init__(self, command: SubCommand) -> None:
        self._command = command.name
        self._letters = {option.letter: option for option in command.options if option.letter}
        self._names = {option.name: option for option in command.options}
        self._given = ParsedOptions()

    def read(self, words: Sequence[str]) -> ParsedOptions:
        left = list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                break
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                self._take(self._named(name), value if equals else None, left)
            elif len(word) > 1 and word.startswith("-"):
                self._burst(word[1:], left)
        return self._given

    def _burst(self, letters: str, left: list[str]) -> None:
        while letters:
            letter, letters = letters[0], letters[1:]
            option = self._letters.get(letter)
            if option is None:
                raise BadUsage(f"{self._command}: there is no option -{letter}")
            if option.takes_value:
                self._take(option, letters or None, left)
                return
            self._take(option, None, left)

    def _named(self, name: str) -> Option:
        found = [option for known, option in self._names.items() if known.startswith(name)]
        exact = self._names.get(name)
        if exact is None and not found:
            hint = did_you_mean(name, self._names, "--")
            raise BadUsage(f"{self._command}: there is no option --{name}{hint}")
        if exact is None and len(found) > 1:
            names = ", ".join(f"--{option.name}" for option in found)
            raise BadUsage(f"{self._command}: --{name} may be any of {names}")
        return exact or found[0]

    def _take(self, option: Option, value: str | None, left: list[str]) -> None:
        if option.takes_value and value is None:
            if not left or self._is_option(left[0]):
                raise BadUsage(f"{self._command}: {_typed(option)} needs a value")
            value = left.pop(0)
        values = self._given.values
        if option.repeats and option.name in values:
            values[option.name] += _BETWEEN + (value or "")
        values.setdefault(option.name, value or "")

    def _is_option(self, word: str) -> bool:
        if word.startswith("--"):
            return word[2:].partition("=")[0] in self._names
        return word.startswith("-") and word[1:2] in self._letters


def usage(command: SubCommand) -> str:
    """The line of a sub-command's usage and the list of its options."""
    options = sorted(command.options, key=lambda option: (option.letter or option.name).lower())
    line = f"usage: mqadmin {command.name}{_synopsis(options)}"
    lines = list(_wrapped(line, len("usage: ")))
    marks = [_mark(option) for option in options]
    width = max(map(len, marks)) + _GAP
    for mark, option in zip(marks, options, strict=True):
        lines += _wrapped(f"{mark:{width}}{option.help}", width)
    return "\n".join(lines) + "\n"


def _synopsis(options: Sequence[Option]) -> str:
    words: list[str] = []
    group = [option for option in options if option.one_of]
    for option in options:
        if option in group:
            if option is group[0]:
                words.append(" | ".join(map(_call, group)) + " ")
        else:
            words.append(_call(option) if option.is_required else f"[{_call(option)}]")
    return "".join(f" {word}" for word in words)


def _call(option: Option) -> str:
    name = f"-{option.letter}" if option.letter else f"--{option.name}"
    return f"{name} <arg>" if option.takes_value else name


def _mark(option: Option) -> str:
    short = f" -{option.letter},--" if option.letter else "    --"
    return f"{short}{option.name} <arg>" if option.takes_value else f"{short}{option.name}"


def _wrapped(line: str, indent: int) -> Iterator[str]:
    while len(line) > _WIDTH:
        cut = line.rfind(" ", 0, _WIDTH + 1)
        if cut <= indent:
            break
        yield line[:cut].rstrip()
        line = " " * indent + line[cut:].strip()
    yield line.rstrip()
