"""Files to edit: each is a pipeline that is right as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.init import template, write_file
from penstock.core.errors import PenstockError
from penstock.spark.pipelines import Pipeline

KINDS = ("archive", "metrics", "forward", "deliver", "dedupe", "backfill")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_right_as_it_stands(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.toml"
    write_file(kind, file)
    assert capsys.readouterr().out.splitlines()[1] == f"  penstock pipeline validate {file}"
    spec = Pipeline.from_file(file).spec
    assert spec.name == "own"
    assert spec.tests
    assert len(template(kind).splitlines()) <= 45, "short enough to be read"


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("mine")
    with pytest.raises(PenstockError, match="is there already: give another name"):
        write_file("archive", file)
    assert file.read_text() == "mine"
    with pytest.raises(PenstockError, match="cannot be written: No such file"):
        write_file("archive", tmp_path / "no" / "own.toml")
