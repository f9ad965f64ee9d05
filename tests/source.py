"""The source and its tools as the rules of the house see them, each module parsed once."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "penstock"
TOOLS = ROOT / "tools"
MODULES = sorted(SOURCE.rglob("*.py"))
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_LOOKED_AT = ast.Import | ast.ImportFrom | ast.Attribute | Documented


def name(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _trees() -> dict[Path, ast.Module]:
    """All at once, and for good: else each collection of garbage would look through them."""
    modules = [*MODULES, *sorted(TOOLS.rglob("*.py"))]
    gc.collect()
    gc.disable()
    try:
        return {module: ast.parse(text_of(module), str(module)) for module in modules}
    finally:
        gc.freeze()
        gc.enable()


def tree(module: Path) -> ast.Module:
    return _trees()[module]


@cache
def nodes(module: Path) -> tuple[ast.AST, ...]:
    """Those nodes that rules are about: imports, attributes, and what has a docstring."""
    return tuple(node for node in ast.walk(tree(module)) if isinstance(node, _LOOKED_AT))


def below_assignments(body: list[ast.stmt]) -> Iterator[str]:
    """The texts below assignments."""
    for before, node in pairwise(body):
        match before, node:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                yield text
