"""Reasons why a connection or a file failed, in the words of a line of the log."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

_ERRNO: Final = re.compile(r"\[Errno (?P<number>-?\d+)\] (?P<first>.)")


def reason(error: BaseException) -> str:
    """The error's own words, begun in lower case and without the number that Python puts before
    them; for an error without words its kind.
    """
    if isinstance(error, TimeoutError) and not error.args:
        return "timed out"
    text = _ERRNO.sub(lambda found: found["first"].lower(), str(error))
    return text or type(error).__name__


def system_words(error: BaseException) -> str:
    """The system's words for the error's number, such as ``connection refused``; empty without one.

    asyncio puts the failures of several addresses into one text: the last of them counts.
    """
    number = getattr(error, "errno", None)
    if number is None:
        numbers = [int(found["number"]) for found in _ERRNO.finditer(str(error))]
        number = numbers[-1] if numbers else 0
    return os.strerror(number).lower() if number > 0 else ""


def lookup_words(error: socket.gaierror) -> str:
    """The words for a host that is not found, as Go has them."""
    is_unknown = error.errno == socket.EAI_NONAME
    return "no such host" if is_unknown else (error.strerror or str(error)).lower()
