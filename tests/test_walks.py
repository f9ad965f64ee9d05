"""ARCHITECTURE.md names files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
SECTIONS = re.compile(r"^### (?:Three walks|Questions).*?(?=^##)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.(?:py|js))`")
NAMED = re.compile(r"(?<![\w./-])([\w./-]+\.(?:py|js|css|html|md|toml))\b")
"""A file of the project, in code marks or in a picture."""
STEP = re.compile(r"`([\w/]+\.(?:py|js))`: ((?:`\w+`(?:, | and )?)+)")


def sections() -> list[str]:
    found = SECTIONS.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    return [" ".join(text.split()) for text in found]


def steps() -> list[tuple[str, str]]:
    return [
        (file, name)
        for text in sections()
        for file, names in STEP.findall(text)
        for name in re.findall(r"`(\w+)`", names)
    ]


def functions_of(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return set(re.findall(r"^[\w ]*\b(\w+)\(.*\) \{$", text, re.MULTILINE))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, functions)}


def test_there_are_many_steps() -> None:
    assert len(sections()) == 2
    assert len(steps()) > 50


FILES = sorted({file for text in sections() for file in FILE.findall(text)})


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_there(file: str) -> None:
    assert (SOURCE / file).exists() or (ROOT / file).exists()


def files() -> set[str]:
    """Every file of the project by its path, and by each end of that path."""
    names = ("src", "tests", "tools", "docs", "bench", "deploy", "examples")
    rooms = (ROOT / name for name in names)
    paths = [*ROOT.glob("*.*"), *(path for room in rooms for path in room.rglob("*.*"))]
    parts = [path.relative_to(ROOT).parts for path in paths]
    return {"/".join(each[at:]) for each in parts for at in range(len(each))}


def test_every_file_that_is_named_is_there() -> None:
    """Also outside the walks, where a file is named by its path or the end of it."""
    named = set(NAMED.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    assert len(named) > 60
    assert sorted(named - files()) == []


@pytest.mark.parametrize(("file", "name"), sorted(set(steps())))
def test_a_step_is_there(file: str, name: str) -> None:
    assert name in functions_of(SOURCE / file)
