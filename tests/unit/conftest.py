"""The guard of the fast tests: those that start a process or open a port are in tests/programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

# After `make dev` Spark is not there; after `make install` nothing is left out.
collect_ignore = [] if find_spec("pyspark") else ["spark", "cli/pipeline"]

_REFUSED = frozenset(
    ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "subprocess.Popen")
)


class _Guard:
    """An audit hook of Python's, which cannot be removed and therefore has a switch."""

    is_on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_on and event in _REFUSED:  # at the interpreter's end the names are gone
            pytest.fail(f"{event}: a test with a process or a port belongs below tests/programs")


_guard = _Guard()
sys.addaudithook(_guard)


@pytest.fixture(scope="package", autouse=True)
def _no_process_and_no_port() -> Iterator[None]:
    _guard.is_on = True
    yield
    _guard.is_on = False
