"""``penstock pipeline list`` and ``status``: the pipelines of some folders, and how they run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.pipeline import status
from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.errors import PenstockError
from penstock.spark.pipelines import Pipeline, PipelineFileError
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.own import local_folder
from penstock.spark.pipelines.spec import Spec

_FIGURES = ("rows_read", "read_per_s", "rows_written", "written_per_s", "lag", "batch", "batch_ms")
_HEADS = ("READ", "READ/s", "WRITTEN", "WRITTEN/s", "LAG", "BATCH", "BATCH ms")


@quiet_pipe()
def run_list(places: Sequence[Path], *, as_json: bool) -> None:
    """Print a line for each pipeline. Raises PenstockError for a place that is not there."""
    rows = []
    for file, spec in _pipelines(places):
        state = _state(spec)
        if as_json:
            print(json.dumps(_described(file, spec, state)))
        elif isinstance(spec, Spec):
            tests = str(len(spec.tests)) if spec.tests else "-"
            rows.append([spec.name, str(file), str(spec.source), str(spec.sink), tests, state])
        else:
            rows.append(["-", str(file), str(spec), "", "", "unusable"])
    if not as_json:
        _print(("NAME", "FILE", "SOURCE", "SINK", "TESTS", "STATE"), rows, {4})


@quiet_pipe()
def run_status(places: Sequence[Path], *, as_json: bool) -> None:
    """Print how each pipeline runs. Raises PenstockError for a place that is not there."""
    rows, errors = [], []
    for file, spec in _pipelines(places):
        if not isinstance(spec, Spec):
            continue
        facts = status.read(spec.run.checkpoint) or {}
        state = _state(spec)
        if as_json:
            print(json.dumps(facts | {"name": spec.name, "file": str(file), "state": state}))
            continue
        figures = [f"{facts[name]:,}" if name in facts else "-" for name in _FIGURES]
        rows.append([spec.name, state, *figures, str(facts.get("updated", "-"))])
        if "error" in facts and state == "failed":
            errors.append(f"{spec.name}: {facts['error']}")
    if not as_json:
        _print(("NAME", "STATE", *_HEADS, "UPDATED"), rows, set(range(2, 2 + len(_HEADS))))
        print("".join(f"{error}\n" for error in errors), end="")


def _pipelines(places: Sequence[Path]) -> Iterator[tuple[Path, Spec | PipelineFileError]]:
    """The pipelines, and why a file that was named or looks like one cannot be used."""
    for place in places:
        for file in _files(place):
            try:
                document = Document.load(file)
                if place.is_dir() and not {"source", "sink"} & set(document.tables):
                    continue  # some other TOML file, as there are many
                yield file, Pipeline.from_file(file).spec
            except PipelineFileError as error:
                yield file, error


def _files(place: Path) -> Iterable[Path]:
    if place.is_dir():
        return sorted(place.glob("*.toml"))
    if not place.exists():
        raise PenstockError(f"{place} is not there")
    return [place]


def _state(spec: Spec | PipelineFileError) -> str:
    if not isinstance(spec, Spec):
        return "unusable"
    if local_folder(spec.run.checkpoint) is None:
        return "unknown: its checkpoint is not on this machine"
    facts = status.read(spec.run.checkpoint)
    return str(facts.get("state", "unknown")) if facts else "never run"


def _described(file: Path, spec: Spec | PipelineFileError, state: str) -> dict[str, Any]:
    if not isinstance(spec, Spec):
        return {"file": str(file), "state": state, "error": str(spec)}
    return {
        "name": spec.name,
        "file": str(file),
        "source": str(spec.source),
        "sink": str(spec.sink),
        "tests": len(spec.tests),
        "checkpoint": spec.run.checkpoint,
        "state": state,
    }


def _print(heads: Sequence[str], rows: list[list[str]], right: set[int]) -> None:
    """A table without lines; a file gets it whole, however wide."""
    if not rows:
        print("no pipelines here: `penstock pipeline init` writes one")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, console.measure(table).maximum, 400))
    console.print(table)
