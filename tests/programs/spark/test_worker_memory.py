"""What Spark's workers leave out of their garbage collections, and nobody else's process does."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, importlib.machinery, sys
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec({name!r}, None)
from penstock.spark import worker_memory
worker_memory.settle()
first = gc.get_freeze_count()
more = [[] for _ in range(1000)]
worker_memory.settle()
print(first, gc.get_freeze_count())
"""


@pytest.mark.parametrize(("name", "is_worker"), [("pyspark.daemon", True), ("app", False)])
def test_a_worker_sets_what_it_has_loaded_aside_once(name: str, is_worker: bool) -> None:
    words = [sys.executable, "-c", PROGRAM.format(name=name)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    first, second = map(int, ended.stdout.split())
    assert first == second
    assert (first > 1000) == is_worker
