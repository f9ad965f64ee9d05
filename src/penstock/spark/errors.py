"""Errors between Spark and the log, and their explanation in one line.

An error raised in a Python worker reaches the driver as text inside a Java exception inside a
Python exception. ``explain`` finds our own sentence in that wall.
"""

from __future__ import annotations

import re

from penstock.core.errors import PenstockError


class SourceError(PenstockError):
    """The source cannot go on; the message names topic, node and offset where they are known."""


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
    """The sink cannot go on; the message names rows, topic and node where they are known."""


_OURS = re.compile(r"penstock\.[\w.]*Error: (?P<message>[^\n]+)")
_CONDITION = re.compile(r"^\[([A-Z_.0-9]+)\] ")
_STATE_CODE = re.compile(r" SQLSTATE: \w{5}$")
# What py4j puts around the message of an exception in Java: a line before it, and its class.
_CALLED = re.compile(r"^An error occurred while calling .*\n")
_CLASS = re.compile(r"^: (?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
# All that Spark says of a Python process beside the driver that did not live to answer.
_UNANSWERED = (
    "java.io.EOFException",
    "java.net.SocketException: Connection reset",
    "java.net.SocketException: Broken pipe",
    # The same over a Unix socket:
    "java.io.IOException: Connection reset by peer",
    "java.io.IOException: Broken pipe",
)
_PROCESS_ENDED = (
    "a Python process of the query ended before it had answered (killed, or out of memory); start "
    "the query again, it goes on where it was"
)
# Conditions of Spark's whose words do not help.
_OTHER_STATE = (
    "the groups, windows or unique columns of the query are others than those of the state in its "
    "checkpoint: give it its old columns and types back, or a new checkpoint, which starts over"
)
_CONDITIONS = {
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
}
# Of a sink's files it stands below a line that says only that a task has failed.
_NO_SPACE = "No space left on device"
_DISK_FULL = (
    "the disk of the checkpoint, of the sink or of Spark's temporary files is full "
    f"({_NO_SPACE}); make room and run the same command to go on"
)
# Java's words for a jar that was compiled against other classes than those that are here.
_OTHER_CLASSES = re.compile(
    r"java\.lang\.(?:NoSuchMethod|NoSuchField|AbstractMethod|IncompatibleClassChange)Error: "
    r"(?P<message>[^\n]{0,200})"
)


def explain(error: BaseException) -> str:
    """One line for a person: our own message if there is one, else the first telling line."""
    if isinstance(error, PenstockError):
        return str(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    cause = getattr(error, "_cause", None)
    if str(cause).partition("\n")[0] in _UNANSWERED:
        return _PROCESS_ENDED
    stacks = (getattr(each, "_stackTrace", None) for each in (error, cause))
    whole = "\n".join(map(str, (text, cause, *stacks)))
    if _NO_SPACE in whole:
        return _DISK_FULL
    if other := _OTHER_CLASSES.search(whole):
        return _of_another_spark(other["message"])
    text = _CLASS.sub("", _CALLED.sub("", text))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _readable(lines[0]) if lines else type(error).__name__


def _of_another_spark(message: str) -> str:
    return (
        "a jar of packages is not made for this version of Spark: take the jar of this version, or "
        f"the version of pyspark that the jar is made for ({message})"
    )


def _readable(line: str) -> str:
    """A sentence of Spark's without its codes, or ours in its place."""
    condition = _CONDITION.match(line)
    known = _CONDITIONS.get(condition[1]) if condition else None
    return known or _STATE_CODE.sub("", _CONDITION.sub("", line))
