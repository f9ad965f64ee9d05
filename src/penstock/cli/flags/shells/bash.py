"""Bash's completions: words, and where none begins like what is typed, files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.cli.flags.programs import Command, Flag


def of_flags(program: str, flags: Sequence[Flag]) -> str:
    """The flags of a program as words."""
    return f"complete -o default -o nospace -W {_words(flags)} {program}"


def of_commands(program: str, commands: Mapping[str, Command]) -> str:
    """The names of a program's commands, then the flags of the one that was given."""
    names = shlex.quote(" ".join((*commands, "help")))
    cases = "".join(
        f"      {name}) words={_words(each.flags)} ;;\n" for name, each in commands.items()
    )
    return _COMMANDS.format(program=program, names=names, cases=cases)


def _words(flags: Sequence[Flag]) -> str:
    words = (f"{each.name}{each.joint.strip()}" if each.value else each.name for each in flags)
    return shlex.quote(" ".join(words))


_COMMANDS: Final = """\
_penstock_{program}() {{
  local words={names}
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}      help) ;;
      *) words= ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  [[ "${{COMPREPLY[0]-}}" != *= ]] || compopt -o nospace 2>/dev/null
}}
complete -o default -F _penstock_{program} {program}"""
