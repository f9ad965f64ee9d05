"""The flags that RocketMQ's two programs share, as Java's have them, and the refusal of others."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NoReturn

from penstock import __version__
from penstock.core.nearest import did_you_mean

ROCKETMQ_VERSION = "4.9.8"


def introduction(program: str) -> str:
    """The program, its version, and the RocketMQ that it stands for."""
    return f"{program} of Penstock {__version__}, as RocketMQ {ROCKETMQ_VERSION}"


class JavaFlags(argparse.ArgumentParser):
    """A parser that names the nearest flag to one that is unknown, on the last line."""

    def __init__(self, program: str, description: str) -> None:
        super().__init__(prog=program, description=description)
        self.add_argument(
            "-c", "--configFile", metavar="FILE", help="properties, as Java's has them"
        )
        self.add_argument(
            "-p", "--printConfigItem", action="store_true", help="print all properties"
        )
        self.add_argument(
            "--log-level",
            default="info",
            metavar="LEVEL",
            help="debug, info (default), warn, error or fatal",
        )
        self.add_argument(
            "--log-format",
            default="text",
            metavar="FORMAT",
            help="lines of the log: text (default) or json",
        )
        self.add_argument("--version", action="version", version=introduction(program))

    def words(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """The flags of a command line. SystemExit: 0 after help or version, 2 for a wrong flag."""
        words, unknown = self.parse_known_args(argv)
        if unknown:
            self._refuse(unknown)
        return words

    def listed(self) -> Iterator[tuple[str, str, str]]:
        """Each flag's longest name, what stands for its value (empty for a switch), its help."""
        for action in self._actions:
            name = max(action.option_strings, key=len)
            value = "" if action.nargs == 0 else str(action.metavar or action.dest)
            yield name, value, str(action.help or "")

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        hint = did_you_mean(unknown[0].partition("=")[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
