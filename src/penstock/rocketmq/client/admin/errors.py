"""Failures of an administrator's requests."""

from __future__ import annotations

from penstock.core.errors import PenstockError


class AdminError(PenstockError):
    """An administrator cannot have what was asked for; the text is for the user."""


class Refused(AdminError):
    """A server's refusal: its code and the first line of its words, printed as upstream does."""

    def __init__(self, code: int, words: str | None) -> None:
        self.code = code
        self.words = (words or "").partition("\n")[0].rstrip()
        super().__init__(f"CODE: {code}  DESC: {self.words}")
