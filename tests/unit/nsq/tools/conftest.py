"""What a tool run inside the test leaves behind is put back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.nsq.tools import lines

TO_FILE = "penstock.nsq.tools.to_file"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """A tool that runs in here sets up loggers of the process; afterwards they are as before."""
    used = [logging.getLogger(name) for name in ("penstock", "asyncio", lines.CLIENT, TO_FILE)]
    kept = [(list(logger.handlers), logger.propagate, logger.level) for logger in used]
    yield
    for logger, (handlers, propagate, level) in zip(used, kept, strict=True):
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)
