"""``penstock completion``: what a shell needs to complete the flags of all programs."""

from __future__ import annotations

from types import ModuleType
from typing import Final, Literal

from cyclopts import App

from penstock.cli.flags.programs import mqadmin, programs
from penstock.cli.flags.shells import bash, fish, zsh
from penstock.cli.shared.pipes import quiet_pipe

Shell = Literal["bash", "zsh", "fish"]


def print_script(app: App, shell: Shell) -> None:
    """Print what a shell reads at its start."""
    with quiet_pipe():
        print(script(app, shell))


def script(app: App, shell: Shell) -> str:
    """The completion of the command ``penstock``, then of each program, ``mqadmin`` last."""
    module = _SHELLS[shell]
    parts = [app.generate_completion(shell=shell), _AFTER_PENSTOCK[shell]]
    parts += [module.of_flags(program, flags) for program, flags in programs().items()]
    parts.append(module.of_commands("mqadmin", mqadmin()))
    return "\n".join(filter(None, parts))


_SHELLS: Final[dict[str, ModuleType]] = {"bash": bash, "zsh": zsh, "fish": fish}
# Zsh knows the function of a script that it has read itself only if it is told.
_AFTER_PENSTOCK: Final = {"bash": "", "zsh": "compdef _cyclopts_penstock penstock", "fish": ""}
