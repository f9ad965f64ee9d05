"""Daemons of `penstock.testing.daemons` are forked, which is several times as quick as a start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import pytest

from penstock.testing.daemons import Daemon
from tests.programs.forking import Forked, forks

HERE: Final = Path(__file__).parent
REAL: Final = (
    "cli/test_mqbroker.py", "cli/test_mqnamesrv.py", "cli/test_nsqadmin.py", "cli/test_nsqd.py",
    "cli/test_nsqlookupd.py", "cli/test_starts.py", "core/metrics", "testing",
)  # fmt: skip
"""Where daemons are started as users start them: what these tests are about is the start."""
OURS: Final = [sys.executable, "-m"]


def pytest_sessionfinish() -> None:
    forks.close()


@pytest.fixture(scope="module", autouse=True)
def forked_daemons(request: pytest.FixtureRequest) -> Iterator[None]:
    """Daemons of ours are forked, but for ``REAL``."""
    launch = Daemon._launch

    def forked(self: Daemon, log: BinaryIO) -> Forked | subprocess.Popen[bytes]:
        if self.program[:2] != OURS:
            return launch(self, log)
        _, _, module, *flags = self.command()
        return forks.run(module, flags, log)

    own = request.path.relative_to(HERE).as_posix()
    with pytest.MonkeyPatch.context() as patch:
        if not own.startswith(REAL):
            patch.setattr(Daemon, "_launch", forked)
        yield
