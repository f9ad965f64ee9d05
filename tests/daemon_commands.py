"""Command lines of our daemons on free ports, for tests of what all five have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from penstock.core.settings import java_properties

DAEMONS: Final = ("nsqd", "nsqlookupd", "nsqadmin", "mqnamesrv", "mqbroker")


def command(program: str, home: Path) -> list[str]:
    """The words that start a daemon, with all that it writes below ``home``."""
    return [sys.executable, "-m", f"penstock.cli.{program}", *_flags(program, home)]


def _flags(program: str, home: Path) -> list[str]:
    if program.startswith("mq"):
        return ["-c", str(properties(program, home))]
    flags = {
        "nsqd": ["--tcp-address=127.0.0.1:0", f"--data-path={home}"],
        "nsqlookupd": ["--tcp-address=127.0.0.1:0"],
        "nsqadmin": ["--nsqd-http-address=127.0.0.1:1"],
    }
    return ["--http-address=127.0.0.1:0", *flags[program]]


def properties(program: str, home: Path) -> Path:
    """A file for one of RocketMQ's daemons, with all that it writes below ``home``."""
    own: dict[str, dict[str, object]] = {
        "mqnamesrv": {"kvConfigPath": home / "kvConfig.json"},
        "mqbroker": {"storePathRootDir": home / "store", "brokerIP1": "127.0.0.1"},
    }
    file = home / "daemon.properties"
    shared = {"bindAddress": "127.0.0.1", "listenPort": 0}
    file.write_text(java_properties.dumps({**shared, **own[program]}))
    return file
