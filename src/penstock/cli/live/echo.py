"""Echo of the keyboard, stopped while a panel is redrawn in place.

The ``^C`` that a terminal writes where the cursor is pushes the panel down a line, and the next
drawing leaves its upper border behind.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from typing import Any

_LOCAL_MODES = 3


class Echo:
    """The echo of the terminal that is standard input, if it is one."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def stop(self) -> None:
        """Show no key that is pressed; Ctrl-C and its like work on."""
        if self._before is not None or not sys.stdin.isatty():
            return
        self._before = termios.tcgetattr(sys.stdin)
        modes = list(self._before)
        modes[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)

    def restore(self) -> None:
        """The terminal as it was; one that is gone does not mind."""
        before, self._before = self._before, None
        if before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
