"""A wrong command line of ``penstock``, said in one line like every other error of it."""

from __future__ import annotations

import sys
from typing import NoReturn

from cyclopts import CycloptsError, MissingArgumentError


def refuse(error: CycloptsError) -> NoReturn:
    """Say the error and where to read on, and leave with 2: a console would break the line."""
    command = " ".join(("penstock", *(error.command_chain or ())))
    said = " ".join(_said(error).split()).rstrip(".")
    print(f"penstock: {said}; see `{command} --help`", file=sys.stderr)
    sys.exit(2)


def _said(error: CycloptsError) -> str:
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
