"""Standard output whose reader has had enough, as ``head`` has, or does not know all characters."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """End quietly when nobody reads any more: nothing may be written at exit either."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def spell_out() -> None:
    """Have characters that standard output's encoding lacks shown as escapes; a locale that is not
    UTF-8 is no reason to fail.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
