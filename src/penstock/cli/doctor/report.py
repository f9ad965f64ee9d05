"""A finding of the doctor: what is wrong, where, and what helps."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Level(Enum):
    """An error stops or has lost something, a warning may come to that, a note is not a fault."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Struct, frozen=True):
    """One fault; ``code`` names its kind for programs, ``remedy`` is what to do."""

    level: Level
    code: str
    where: str
    what: str
    remedy: str


def error(code: str, where: str, what: str, remedy: str) -> Finding:
    """A finding of that level."""
    return Finding(Level.ERROR, code, where, what, remedy)


def warning(code: str, where: str, what: str, remedy: str) -> Finding:
    """A finding of that level."""
    return Finding(Level.WARNING, code, where, what, remedy)


class Report(Struct):
    """All findings, and what was looked at."""

    findings: list[Finding] = []
    checked: list[str] = []

    @property
    def errors(self) -> list[Finding]:
        """The findings of that level."""
        return [each for each in self.findings if each.level is Level.ERROR]

    @property
    def faults(self) -> list[Finding]:
        """The findings that are more than a note."""
        return [each for each in self.findings if each.level is not Level.NOTE]
