"""The notebooks of examples/notebooks: run without Jupyter, and written with what their cells show.

    python -m tools.pages.notebooks        runs all of them over a node and stores their outputs

A cell's outputs are what it prints, the value of its last line, and the figures that it has drawn.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from penstock.testing.daemons import run_nsqd

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def run(notebook: Path, nsqd_http: str) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, over the node at this address."""
    os.environ |= {"MPLBACKEND": "agg", "NSQD_HTTP": nsqd_http}
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [_outputs("".join(each["source"]), names) for each in cells if _is_code(each)]


def stored(notebook: Path) -> list[list[dict[str, Any]]]:
    """The outputs that are in the file."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [each["outputs"] for each in cells if _is_code(each)]


def store(notebook: Path, outputs: list[list[dict[str, Any]]]) -> None:
    """Put outputs into the file."""
    whole = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [each for each in whole["cells"] if _is_code(each)]
    for number, (cell, found) in enumerate(zip(cells, outputs, strict=True), 1):
        cell["outputs"], cell["execution_count"] = found, number
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    notebook.write_text(text + "\n", encoding="utf-8")


def _is_code(cell: dict[str, Any]) -> bool:
    return bool(cell["cell_type"] == "code")


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found = []
    if printed.getvalue():
        found.append(
            {"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())}
        )
    figures = _figures()
    if value is not None and not figures:
        shown: dict[str, Any] = {"data": {"text/plain": _lines(repr(value))}, "metadata": {}}
        found.append(shown | {"execution_count": None, "output_type": "execute_result"})
    return found + figures


def _figures() -> list[dict[str, Any]]:
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=80, bbox_inches="tight")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        with run_nsqd() as node:
            store(path, run(path, node.http))
