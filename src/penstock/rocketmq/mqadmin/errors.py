"""Failures of a sub-command."""

from __future__ import annotations

from penstock.core.errors import PenstockError


class CommandFailed(PenstockError):
    """The sub-command cannot go on; the text is for the user."""


class UsageWanted(CommandFailed):
    """The options name no broker and no cluster: the usage is printed instead."""

    def __init__(self) -> None:
        super().__init__("the options name neither a broker nor a cluster: give -b or -c")
