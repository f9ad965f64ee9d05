"""The program: finds the sub-command, runs it, and tells what went wrong in one line.

Exit codes are upstream's: 0 whether the sub-command succeeds or fails, 1 for a command line that
makes no sense. With ``--json`` a failure is 1 as well, so that scripts see it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.core.nearest import did_you_mean
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import BadUsage, ParsedOptions, SubCommand, parse, usage
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS, find

if TYPE_CHECKING:
    from penstock.rocketmq.client.config import Config

_COMMANDS: Final = "penstock.rocketmq.mqadmin.commands"
_INTERRUPTED: Final = 130
_SENSELESS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that the fields of an answer may lead to which lacks them, or has others."""


def run(words: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Words of the command line and ids of clients may be what cannot be encoded.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(words))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of stdout has gone, as `head` does; Python would fail again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(words: list[str]) -> int:
    if not words or words == ["help"]:
        print(_overview(), end="")
        return 0
    asks_help = words[0] == "help" and len(words) == 2
    name = words[1] if asks_help else words[0]
    command = find(name)
    if command is None:
        # Upstream's words, on stdout, with its exit code.
        print(f"The sub command {name} not exist.")
        hint = did_you_mean(name, [each.name for each in SUB_COMMANDS])
        _complain(f"mqadmin: there is no sub-command {name}{hint or '; mqadmin lists them'}")
        return 0
    if asks_help:
        print(usage(command), end="")
        return 0
    try:
        given = parse(command, words[1:])
    except BadUsage as error:
        print(usage(command), end="")
        _complain(f"mqadmin {error}")
        return 1
    if "help" in given:
        print(usage(command), end="")
        return 0
    return execute(command, given)


def execute(command: SubCommand, given: ParsedOptions) -> int:
    """Run a sub-command; the exit code."""
    as_json = "json" in given
    out = Output(sys.stdout.write, as_json=as_json)
    try:
        _call(command, given, out)
        failed = False
    except BrokenPipeError:
        raise
    except UsageWanted as error:
        out.text(usage(command))
        out.fail(str(error))
        if not as_json:
            _complain(f"mqadmin {command.name}: {error}")
        failed = True
    except (PenstockError, OSError, *_SENSELESS) as error:
        out.fail(_reason(error), error.code if isinstance(error, Refused) else None)
        if not as_json:
            _complain(f"mqadmin {command.name}: {_reason(error)}")
        failed = True
    out.finish()
    sys.stdout.flush()
    # As upstream, which exits with 0 even after an error; --json is ours, and so is its exit code.
    return int(failed and as_json)


def _complain(text: str) -> None:
    """Say what is wrong, behind what was printed: upstream's exit code may not show it."""
    sys.stdout.flush()
    print(text, file=sys.stderr)


def _call(command: SubCommand, given: ParsedOptions, out: Output) -> None:
    from penstock.rocketmq.client.events import LOGGER
    from penstock.rocketmq.mqadmin.admin import Admin

    LOGGER.addHandler(logging.NullHandler())  # what goes wrong is raised as well, and told once
    home, _, function = command.home.rpartition(".")
    work = getattr(import_module(f"{_COMMANDS}.{home}"), function)
    admin = Admin(given.text("namesrvAddr"), config_of(given))
    try:
        admin.do(work(admin, given, out))
    finally:
        admin.close()


def config_of(given: ParsedOptions) -> Config:
    """The options of the client: ``--client-opt``, and the account. Raises ConfigError.

    The account stands in ``conf/tools.yml`` under ROCKETMQ_HOME, where upstream's tool has it too.
    """
    from penstock.rocketmq.client.config import Config

    config = Config()
    found = _account()
    if found.get("accessKey") and found.get("secretKey"):
        config = Config(access_key=found["accessKey"], secret_key=found["secretKey"])
    for each in given.all("client-opt"):
        name, comma, value = each.partition(",")
        config = config.with_option(name, value if comma else True)
    return config.validate()


def _account() -> dict[str, str]:
    home = os.environ.get("ROCKETMQ_HOME")
    try:
        lines = (Path(home) / "conf" / "tools.yml").read_text().splitlines() if home else []
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines if not line.startswith((" ", "#")))
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


def _overview() -> str:
    lines = ["The most commonly used mqadmin commands are:"]
    lines += [f"   {each.name:<20} {each.help}" for each in SUB_COMMANDS]
    lines += ["", "See 'mqadmin help <command>' for more information on a specific command.", ""]
    return "\n".join(lines)


def _reason(error: Exception) -> str:
    if isinstance(error, PenstockError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"the server's answer makes no sense ({type(error).__name__}: {error})"
