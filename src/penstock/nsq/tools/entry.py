"""The entry of the commands: quick, when only the version is asked for."""

from __future__ import annotations

import sys

from penstock.core.settings.version import NSQ_VERSION, with_penstock


def enter(tool: str, module: str) -> None:
    """Run the tool whose ``run(argv)`` is in ``module``; leaves with its exit code."""
    if sys.argv[1:] in (["--version"], ["-version"]):  # without the tool's own imports
        print(version_text(tool))
        sys.exit(0)
    from importlib import import_module

    from penstock.nsq.tools.errors import leave_with

    with leave_with():
        sys.exit(import_module(module).run(sys.argv[1:]))


def version_text(tool: str) -> str:
    """The text that --version prints."""
    return with_penstock(f"{tool} v{NSQ_VERSION}")
