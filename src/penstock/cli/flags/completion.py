"""``penstock completion``: what a shell needs to complete the flags of all programs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final, Literal

from cyclopts import App

from penstock.cli.flags.programs import Flag, programs
from penstock.cli.shared.pipes import quiet_pipe

Shell = Literal["bash", "zsh", "fish"]


def print_script(app: App, shell: Shell) -> None:
    """Print what a shell reads at its start."""
    with quiet_pipe():
        print(script(app, shell))


def script(app: App, shell: Shell) -> str:
    """The completion of the command ``penstock``, then of each program."""
    parts = [app.generate_completion(shell=shell), _AFTER_PENSTOCK[shell]]
    parts += [_PROGRAM[shell](program, flags) for program, flags in programs().items()]
    return "\n".join(filter(None, parts))


def _bash(program: str, flags: Sequence[Flag]) -> str:
    """The flags as words; where none begins like what is typed, files."""
    words = " ".join(f"{each.name}=" if each.value else each.name for each in flags)
    return f"complete -o default -o nospace -W {shlex.quote(words)} {program}"


def _zsh(program: str, flags: Sequence[Flag]) -> str:
    function = f"_penstock_{program}"
    lines = "".join(f" \\\n    {shlex.quote(_zsh_argument(each))}" for each in flags)
    return f"{function}() {{\n  _arguments{lines}\n}}\ncompdef {function} {program}"


def _zsh_argument(flag: Flag) -> str:
    text = flag.help.translate({ord(mark): f"\\{mark}" for mark in "\\[]:"})
    return f"*{flag.name}=[{text}]:{flag.value}:_default" if flag.value else f"{flag.name}[{text}]"


def _fish(program: str, flags: Sequence[Flag]) -> str:
    lines = []
    for each in flags:
        style = f"-l {each.name[2:]}" if each.name.startswith("--") else f"-s {each.name[1:]}"
        takes = " -r" if each.value else ""
        lines.append(f"complete -c {program} {style}{takes} -d {_fish_quoted(each.help)}")
    return "\n".join(lines)


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_PROGRAM: Final[dict[str, Callable[[str, Sequence[Flag]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
# Zsh knows the function of a script that it has read itself only if it is told.
_AFTER_PENSTOCK: Final = {"bash": "", "zsh": "compdef _cyclopts_penstock penstock", "fish": ""}
