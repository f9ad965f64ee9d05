"""Daemons that wait for others which a busy machine keeps from answering, a minute at least."""

from __future__ import annotations

import sys
from typing import Final

PATIENT: Final = ("--http-client-connect-timeout=60s", "--http-client-request-timeout=60s")
"""Flags of an nsqd or nsqadmin."""


def patient_nsqd(module: str, limit: str) -> list[str]:
    """The words that start a real nsqd with a limit in seconds, which no flag sets, at a minute."""
    set_limit = f"import {module}; {module}.{limit} = 60.0"
    return [sys.executable, "-c", f"{set_limit}\nfrom penstock.cli.nsqd import main; main()"]
