"""The end of a module with its parent: ``parent_watch PID MODULE``.

The kernel sends SIGTERM when the parent is gone, even when that was killed (Linux). The child asks
for this itself: code between fork and exec in a parent with threads can deadlock. The module then
takes this program's place, which keeps the request, so that lists of processes have its name.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """``parent_watch PID MODULE ARGUMENTS...``: PID is the process id of our parent."""
    parent, module = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # It may have died before the request: then no signal comes.
    if os.getppid() != parent:
        sys.exit("the parent was gone before the start")
    os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[3:]])


if __name__ == "__main__":
    main()
