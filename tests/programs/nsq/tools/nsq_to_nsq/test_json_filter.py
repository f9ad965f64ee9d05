"""The cases of `nsq/tools/nsq_to_nsq/test_json_filter.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("depth", [9_999, 100_000])
def test_deep_nesting(depth: int) -> None:
    """As deep as Go reads, in a process of its own because that needs much of the stack."""
    script = f"""
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, NoObject
body = b'{{"a":' + b"[" * {depth} + b"]" * {depth} + b"}}"
try:
    print(JsonFilter(kept=["a"]).apply(body) == body)
except NoObject:
    print("no object")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() == ("True" if depth < 10_000 else "no object")
