"""A wrong command line of ``penstock``, said in one line like every other error of it."""

from __future__ import annotations

import re
import sys
from typing import Final, NoReturn

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError
from cyclopts.exceptions import UnusedCliTokensError

from penstock.core.nearest import did_you_mean

_ADDRESS: Final = re.compile(r"https?://.+|[^/]*:\d+")


def refuse(error: CycloptsError) -> NoReturn:
    """Say the error and where to read on, and leave with 2: a console would break the line."""
    command = " ".join(("penstock", *(error.command_chain or ())))
    said = " ".join(_said(error).split()).rstrip(".")
    joint = " See" if said.endswith("?") else "; see"
    print(f"penstock: {said}{joint} `{command} --help`", file=sys.stderr)
    sys.exit(2)


def _said(error: CycloptsError) -> str:
    if isinstance(error, UnknownCommandError):
        return _unknown_command(error)
    if isinstance(error, UnusedCliTokensError):
        return _unused(error)
    argument = error.argument
    if isinstance(error, MissingArgumentError) and argument is not None:
        given = error.keyword or next(
            (each.keyword for each in argument.tokens if each.keyword), ""
        )
        mistyped = any(each.startswith("-") for each in error.unused_tokens or ())
        if given:
            return f"{given} needs a value"
        if not mistyped:
            return f"{argument.name} is required"
    return str(error)


def _unknown_command(error: UnknownCommandError) -> str:
    name = (error.unused_tokens or [""])[0]
    known = [each for each in error.app or () if not each.startswith("-")]
    return f"there is no command {name}{did_you_mean(name, known)}"


def _unused(error: UnusedCliTokensError) -> str:
    """Words that a command has no place for, with the flag that takes such a value, if any."""
    unused = error.unused_tokens or [""]
    flag = "--nsqd-http-address" if _ADDRESS.fullmatch(unused[0]) else "--data-path"
    meant = f": did you mean {flag} {unused[0]}?" if flag in _flags(error) else ""
    return f"{' '.join(unused)} has no place here{meant}"


def _flags(error: CycloptsError) -> set[str]:
    """The flags of the command that was meant."""
    arguments = error.app.assemble_argument_collection() if error.app is not None else ()
    return {name for argument in arguments for name in argument.names}
