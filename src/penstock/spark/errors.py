"""What can go wrong between Spark and the log, and how to say it in one line.

An error raised in a Python worker reaches the driver as text inside a Java exception inside a
Python exception. ``explain`` finds our own sentence in that wall.
"""

from __future__ import annotations

import re

from penstock.core.errors import PenstockError


class SourceError(PenstockError):
    """The source cannot go on; the message names topic, node and offset as far as known."""


class OptionError(SourceError):
    """An option of the data source is missing or has no usable value."""


class LostError(SourceError):
    """Messages that were to be read are gone; ``resume`` is the offset after them, if any."""

    def __init__(self, message: str, resume: int | None = None) -> None:
        super().__init__(message)
        self.resume = resume


class GroupTakenError(SourceError):
    """Another query reads for the same group."""


class SinkError(PenstockError):
    """The sink cannot go on; the message names rows, topic and node as far as known."""


_OURS = re.compile(r"penstock\.[\w.]*Error: (?P<message>[^\n]+)")
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ")
# What py4j puts around the message of an exception in Java: a line before it, and its class.
_CALLED = re.compile(r"^An error occurred while calling .*\n")
_CLASS = re.compile(r"^: (?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
# All that Spark says of a Python process beside the driver that did not live to answer.
_UNANSWERED = (
    "java.io.EOFException",
    "java.net.SocketException: Connection reset",
    "java.net.SocketException: Broken pipe",
)
_PROCESS_ENDED = (
    "a Python process of the query ended before it had answered (killed, or out of memory); start "
    "the query again, it goes on where it was"
)


def explain(error: BaseException) -> str:
    """One line for a person: our own message if there is one, else the first telling line."""
    if isinstance(error, PenstockError):
        return str(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    if str(getattr(error, "_cause", "")).partition("\n")[0] in _UNANSWERED:
        return _PROCESS_ENDED
    text = _CLASS.sub("", _CALLED.sub("", text))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _CONDITION.sub("", lines[0]) if lines else type(error).__name__
