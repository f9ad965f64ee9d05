"""Standard output whose reader has had enough, as ``head`` has, which goes to a full disk, or does
not know all characters.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Final

from penstock.core.errors import PenstockError
from penstock.core.reasons import system_words

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """End quietly when nobody reads any more. Raises PenstockError where a disk takes no more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up()
    except OSError as error:
        raise PenstockError(full(error)) from error


def full(error: OSError) -> str:
    """The text for a disk that takes no more of standard output, which gets nothing from now on.

    Any other error is raised again.
    """
    if error.errno not in _FULL:
        raise error
    _give_up()
    return f"standard output takes no more: {system_words(error)}"


def _give_up() -> None:
    """Have nothing more reach standard output, at exit either."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def spell_out() -> None:
    """Have characters that standard output's encoding lacks shown as escapes; a locale that is not
    UTF-8 is not a reason to fail.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
