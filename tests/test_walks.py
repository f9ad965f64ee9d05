"""The walks through the code in ARCHITECTURE.md lead to functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^### Three walks.*?(?=^##)", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"`([\w/]+\.py)`: ((?:`\w+`(?:, | and )?)+)")


def steps() -> list[tuple[str, str]]:
    section = SECTION.search((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert section is not None
    text = " ".join(section[0].split())
    return [
        (file, name) for file, names in STEP.findall(text) for name in re.findall(r"`(\w+)`", names)
    ]


def test_there_are_many_steps() -> None:
    assert len(steps()) > 40


@pytest.mark.parametrize(("file", "name"), steps())
def test_a_step_is_there(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "src" / "penstock" / file).read_text(encoding="utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}
