"""The end of a tool when something is wrong: one line on stderr and an exit code.

Go's programs write ``2009/01/23 01:23:23 text`` and leave with 1. No traceback reaches a user.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from penstock.core.errors import PenstockError
from penstock.core.logs import bare_line


class ToolError(PenstockError):
    """The tool cannot go on; the text is the whole line, without the time.

    With an empty text the tool ends quietly, because the reason was logged already.
    """

    def __init__(self, text: str = "", code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class OutputClosed(PenstockError):
    """The end of the output: its reader has exited, as ``head`` does when it has enough."""


def say(text: str) -> None:
    """A line on stderr as Go's ``log.Printf`` writes it."""
    with suppress(OSError, ValueError):  # nobody may be there to read it
        print(bare_line(text), file=sys.stderr, flush=True)


def exit_code(error: BaseException) -> int:
    """Tell the user what ended the tool, in one line; the exit code that goes with it."""
    cause = _cause(error)
    if isinstance(cause, OutputClosed):
        # The end that a shell expects of a writer whose reader has left.
        die_of(signal.SIGPIPE)
    text = describe(cause)
    if text:
        say(text)
    return cause.code if isinstance(cause, ToolError) else 1


@contextmanager
def leave_with() -> Iterator[None]:
    """Around a whole program: an exception ends it with one line and its exit code."""
    try:
        yield
    except Exception as error:
        sys.exit(exit_code(error))
    except KeyboardInterrupt:  # before or after the event loop, which handles the signal
        die_of(signal.SIGINT)


def describe(error: BaseException) -> str:
    """An exception as one line."""
    if isinstance(error, PenstockError):
        # Of a lost connection Go's programs only print the reason, which names the address.
        reason = str(getattr(error, "reason", ""))
        return reason if reason.startswith("dial ") else str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror.lower()}"
    return f"unexpected {type(error).__name__}: {error}".replace("\n", " ")


def die_of(number: signal.Signals) -> NoReturn:
    """End at once, as this signal ends a program that does not handle it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # where the signal is blocked


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Around writes to stdout: OutputClosed when the reader has gone, ToolError for the rest."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise OutputClosed from error
        reason = (error.strerror or str(error)).lower()
        text = f"ERROR: failed to write to os.Stdout - write /dev/stdout: {reason}"
        raise ToolError(text) from error


def _cause(error: BaseException) -> BaseException:
    """The first of the errors that came together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
