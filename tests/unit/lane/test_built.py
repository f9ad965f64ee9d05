"""Compiled code is there where it can be made, or its tests would be left out in silence."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from penstock import lane


def test_it_was_built_where_a_compiler_is() -> None:
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which("cc") and headers.exists():
        assert lane.STATE != "not built", "make install says why"
