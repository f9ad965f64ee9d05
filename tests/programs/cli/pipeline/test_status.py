"""The cases of `cli/pipeline/test_status.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.cli.pipeline import status


def test_a_run_that_was_killed_is_told_from_one_that_runs(tmp_path: Path) -> None:
    code = (
        "import os, sys; from penstock.cli.pipeline.status import StatusFile\n"
        "with StatusFile(sys.argv[1]) as file:\n"
        "    file.tell(state='running', at_once=True); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path]).returncode == 9
    assert (status.read(str(tmp_path)) or {})["state"] == "killed"
