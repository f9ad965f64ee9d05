"""``penstock help flags``: the flags of all programs, or those that words are about."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.flags.programs import Flag, mqadmin, programs
from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.errors import PenstockError


def run_help_flags(words: Sequence[str]) -> None:
    """Print a program's name, and below it those of its flags that have all the words.

    A word is of the flag, its help, or a whole word of the program's name, to which that of a
    sub-command belongs. Raises PenstockError where no flag has them.
    """
    wanted = [word.lower() for word in words]
    found = False
    with quiet_pipe():
        for program, flags in _listed().items():
            left = [word for word in wanted if word not in program.lower().split()]
            chosen = [
                each
                for each in flags
                if all(word in f"{each.name} {each.help}".lower() for word in left)
            ]
            if chosen:
                before, found = "\n" if found else "", True
                print(f"{before}{program}")
            for each in chosen:
                print(f"  {each.shown}\n        {each.help}")
    if not found:
        raise PenstockError(f"no flag of any program is about {' '.join(words)}")


def _listed() -> dict[str, list[Flag]]:
    of_mqadmin = {f"mqadmin {name}": each.flags for name, each in mqadmin().items()}
    return programs() | of_mqadmin
