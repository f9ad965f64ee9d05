"""Zsh's completions: functions for ``_arguments``, with the help beside each flag."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.cli.flags.programs import Command, Flag


def of_flags(program: str, flags: Sequence[Flag]) -> str:
    """The function of a program with flags alone."""
    return _registered(program, f"  {_arguments(flags)}\n")


def of_commands(program: str, commands: Mapping[str, Command]) -> str:
    """The function of a program that describes its commands, then completes their flags."""
    described = [f"{name}:{_plain(each.help)}" for name, each in commands.items()]
    lines = "\n    ".join(map(shlex.quote, described))
    cases = "".join(f"    {name}) {_arguments(each.flags)} ;;\n" for name, each in commands.items())
    return _registered(program, _COMMANDS.format(lines=lines, cases=cases))


def _registered(program: str, body: str) -> str:
    function = f"_penstock_{program}"
    return f"{function}() {{\n{body}}}\ncompdef {function} {program}"


def _arguments(flags: Sequence[Flag]) -> str:
    specs = (spec for each in flags for spec in _specs(each))
    return "_arguments" + "".join(f" \\\n    {shlex.quote(spec)}" for spec in specs)


def _specs(flag: Flag) -> Iterator[str]:
    for name in filter(None, (flag.name, flag.letter)):
        joint = "=" if name.startswith("--") else "+"
        value = f"{joint}[{_plain(flag.help)}]:{_plain(flag.value)}:_default"
        yield f"*{name}{value}" if flag.value else f"{name}[{_plain(flag.help)}]"


def _plain(text: str) -> str:
    """The text without what zsh would read as its marks."""
    return text.translate({ord(mark): f"\\{mark}" for mark in "\\[]:"})


_COMMANDS: Final = """\
  local -a commands=(
    {lines}
    'help:tell the options of a command'
  )
  if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{cases}  esac
"""
