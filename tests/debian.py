"""Programs that tests need and pip does not bring: shells, systemd's checker, Prometheus."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(program: str, package: str) -> str:
    """The path of a program. Skips the test where there is none, but fails it in CI."""
    found = shutil.which(program)
    remedy = f"no {program} on PATH: install it (on Debian: apt-get install {package})"
    if found is None and not os.environ.get("CI"):
        pytest.skip(remedy)
    assert found is not None, remedy
    return found
