"""The cases of `core/settings/test_options.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys


def test_importing_options_stays_light() -> None:
    code = "import sys, penstock.core.settings.options\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert not {b"tomllib", b"asyncio", b"numpy", b"msgspec", b"logging"} & set(loaded.split())
