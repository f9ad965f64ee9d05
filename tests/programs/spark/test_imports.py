"""What the brokers must not pay for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["penstock", "penstock.cli.nsqd", "penstock.cli.penstock"])
def test_no_spark_without_need(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(m in sys.modules for m in ('pyspark', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
