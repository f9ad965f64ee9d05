"""Reasons why a connection or a file failed, in the words of a line of the log."""

from __future__ import annotations

import re
from typing import Final

_ERRNO: Final = re.compile(r"\[Errno -?\d+\] (?P<first>.)")


def reason(error: BaseException) -> str:
    """The error's own words, begun in lower case and without the number that Python puts before
    them; for an error without words its kind.
    """
    if isinstance(error, TimeoutError) and not error.args:
        return "timed out"
    text = _ERRNO.sub(lambda found: found["first"].lower(), str(error))
    return text or type(error).__name__
