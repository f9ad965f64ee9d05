"""The flags of the programs as tables, each of what its program declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Parameter
from typing import Any, Final

from cyclopts import App

from penstock.cli.flags.programs import programs
from penstock.cli.penstock import app
from penstock.core.settings.options import Flags, Option

from .tables import code, table

OF_THE_MACHINE: Final = {"node_id": "from the host's name", "broadcast_address": "the host's name"}
"""Defaults that differ from host to host, by the option's name."""
_WITHOUT_KEY: Final = {"config", "version"}


def of_daemon(flags: type[Flags]) -> list[tuple[str, str, str]]:
    """A daemon's flags, each above the key that it has in the configuration file."""
    shown = [each for each in flags.declared.values() if not each.hidden]
    return [
        (f"{_flag(each)}{_key(each)}", _default(each), _text(each.help))
        for each in sorted(shown, key=lambda each: each.flag)
    ]


def of_tool(flags: type[Flags]) -> str:
    """A tool's flags; it has no configuration file."""
    shown = [each for each in flags.declared.values() if not each.hidden]
    rows = [
        [_flag(each), _default(each), _text(each.help)]
        for each in sorted(shown, key=lambda each: each.flag)
    ]
    return table(["flag", "default", ""], rows)


def of_java_program(program: str) -> str:
    """The flags of mqbroker or mqnamesrv."""
    rows = [[code(each.shown.replace("=", " ")), _text(each.help)] for each in programs()[program]]
    return table(["flag", ""], rows)


def commands(group: App = app, path: tuple[str, ...] = ("penstock",)) -> Iterator[tuple[str, App]]:
    """The commands of ``penstock`` that do something, with the words that call them."""
    for name in group:
        if not name.startswith("-"):
            command = group[name]
            words = (*path, name)
            if any(not each.startswith("-") for each in command):
                yield from commands(command, words)
            else:
                yield " ".join(words), command


def about_command(command: App) -> str:
    """What a command of ``penstock`` does."""
    about = re.split(r"\n\s*Parameters\n", command.help)[0].strip()
    return "\n".join(line.strip() for line in about.splitlines())


def arguments(command: App) -> list[tuple[str, str, str]]:
    """The arguments of a command of ``penstock``: name, default and meaning."""
    found = command.assemble_argument_collection(parse_docstring=True)
    return [
        (code(", ".join(each.names)), _value(each), _text(str(each.parameter.help or "")))
        for each in found
        if each.show
    ]


def _flag(each: Option) -> str:
    value = each.kind.placeholder
    return code(f"--{each.flag}={value}" if value else f"--{each.flag}")


def _key(each: Option) -> str:
    return "" if each.flag in _WITHOUT_KEY else f"<br>`{each.key}`"


def _default(each: Option) -> str:
    """The default; nothing for a switch that is off and for a text or list that is empty."""
    value = each.initial()
    if type(value) in (int, float) and not value:
        return code(each.kind.show(value))
    return OF_THE_MACHINE.get(each.name) or code(each.kind.show_default(value).strip('"'))


def _value(argument: Any) -> str:
    """The default of an argument; **required** where it must be given."""
    if argument.required:
        return "**required**"
    default = argument.field_info.default
    if default in (None, (), False, Parameter.empty):
        return ""
    if isinstance(default, tuple):
        return code(" ".join(map(str, default)))
    return code(str(default).lower() if default is True else str(default))


def _text(help: str) -> str:
    """The help as Markdown: an address in angle brackets is no element of HTML."""
    return help.replace("<", "&lt;").replace("*", "\\*")
