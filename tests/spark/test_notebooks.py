"""Each notebook of the examples runs over a real node, and shows what its file has stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing.daemons import run_nsqd
from tools.pages.notebooks import FOLDER, run, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(outputs: list[list[dict[str, Any]]]) -> list[list[Any]]:
    """Texts, and of pictures that there is one: their pixels depend on fonts."""
    return [
        [each.get("text") or each["data"].get("text/plain") or list(each["data"]) for each in cell]
        for cell in outputs
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored(spark: SparkSession, notebook: Path) -> None:
    with run_nsqd() as nsqd:
        outputs = run(notebook, nsqd.http)
    assert shown(outputs) == shown(stored(notebook))
    assert sum("image/png" in each.get("data", {}) for cell in outputs for each in cell) >= 3
