"""An nsqd whose logs are not synced while a file exists: its path comes first, then the flags."""

from __future__ import annotations

import os
import sys
import time

from penstock.cli.nsqd import main
from penstock.storage.files.disk import OsLogFile

_POLL_S = 0.002


def hold(gate: str) -> None:
    """Let syncs of logs wait while ``gate`` exists."""
    sync = OsLogFile.sync

    def held(file: OsLogFile) -> None:
        while file.path.endswith(".log") and os.path.exists(gate):
            time.sleep(_POLL_S)
        sync(file)

    OsLogFile.sync = held  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    hold(sys.argv.pop(1))
    main()
