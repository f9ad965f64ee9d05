"""References to what shows a behaviour: recorded cases and tests, checked to exist.

A test is `file::function`, from the folder of tests, or `file::function[parameter]`, where the file
holds the parameter as a text; a case is `file.jsonl:name`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.harness.samples import RECORDINGS, load

TESTS = Path(__file__).parents[2] / "tests"


def tests_of(file: str, *functions: str) -> tuple[str, ...]:
    """References to tests of a source file, which are below tests/unit, or below tests/programs if
    they need a port or a process.
    """
    return tuple(f"{_folder_of(file, each)}/{file}::{each}" for each in functions)


def _folder_of(file: str, function: str) -> str:
    is_program = function in _functions(TESTS / "programs" / file)
    return "programs" if is_program else "unit"


def missing(references: Iterable[str]) -> list[str]:
    """The references that name nothing."""
    return [each for each in references if not _exists(each)]


def _exists(reference: str) -> bool:
    if "::" in reference:
        file, _, function = reference.partition("::")
        function, _, parameter = function.removesuffix("]").partition("[")
        return function in _functions(TESTS / file) and parameter in _texts(TESTS / file)
    file, _, name = reference.partition(":")
    return name in _cases(RECORDINGS / file)


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in _nodes(path) if isinstance(node, kinds))


@functools.cache
def _texts(path: Path) -> frozenset[object]:
    """The constants of a file, and the parameter of what has none."""
    return frozenset({"", *(n.value for n in _nodes(path) if isinstance(n, ast.Constant))})


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else iter(())


@functools.cache
def _cases(path: Path) -> frozenset[str]:
    return frozenset(case["name"] for case in load(path)) if path.exists() else frozenset()
