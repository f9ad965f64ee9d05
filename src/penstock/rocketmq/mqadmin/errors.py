"""Failures of a sub-command."""

from __future__ import annotations

from penstock.core.errors import PenstockError


class CommandFailed(PenstockError):
    """The sub-command cannot go on; the text is for the user."""


class Refused(CommandFailed):
    """A server's refusal: its code and the first line of its words, printed as upstream does."""

    def __init__(self, code: int, words: str | None) -> None:
        self.code = code
        self.words = (words or "").partition("\n")[0].rstrip()
        super().__init__(f"CODE: {code}  DESC: {self.words}")


class UsageWanted(CommandFailed):
    """The options name no broker and no cluster: the usage is printed instead."""

    def __init__(self) -> None:
        super().__init__("the options name neither a broker nor a cluster: give -b or -c")
