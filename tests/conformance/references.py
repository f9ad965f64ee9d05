"""References to what shows a behaviour: recorded cases and tests, checked to exist.

A test is `file::function`, from the folder of tests; a case is `file.jsonl:name`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from .samples import load

TESTS = Path(__file__).parent.parent
SAMPLES = Path(__file__).parent / "samples"


def missing(references: Iterable[str]) -> list[str]:
    """The references that name nothing."""
    return [each for each in references if not _exists(each)]


def _exists(reference: str) -> bool:
    if "::" in reference:
        file, _, function = reference.partition("::")
        return function in _functions(TESTS / file)
    file, _, name = reference.partition(":")
    return name in _cases(SAMPLES / file)


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    if not path.exists():
        return frozenset()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


@functools.cache
def _cases(path: Path) -> frozenset[str]:
    return frozenset(case["name"] for case in load(path)) if path.exists() else frozenset()
