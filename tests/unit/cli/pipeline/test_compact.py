"""``penstock pipeline compact``: of the folder of a pipeline or any other, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.compact import run_compact
from penstock.core.errors import PenstockError
from tests.unit.spark.compaction import lake


def test_the_folder_of_a_pipeline_is_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lake.make(tmp_path / "lake")
    file = tmp_path / "archive.toml"
    file.write_text(
        '[source]\ntopic = "t"\nnsqd_http_address = "h:1"\n'
        f'[sink]\nformat = "parquet"\npath = "file://{made}"\n'
    )
    run_compact(file, 128)
    run_compact(made, 128)
    assert capsys.readouterr().out.splitlines() == [
        f"{made}: 20 files in 2 folders became 2, with the same 140 rows",
        f"{made}: nothing to compact",
    ]


@pytest.mark.parametrize("sink", ['topic = "u"', 'format = "parquet"\npath = "s3a://lake/t"'])
def test_a_sink_that_is_no_folder_here_and_a_size_that_is_none_are_refused(
    tmp_path: Path, sink: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'[source]\ntopic = "t"\nnsqd_http_address = "h:1"\n[sink]\n{sink}\n')
    with pytest.raises(
        PenstockError, match=r"p\.toml writes .*, which is not a folder of this mach"
    ):
        run_compact(file, 128)
    with pytest.raises(PenstockError, match="--file-megabytes must be 1 or more, not 0"):
        run_compact(tmp_path, 0)
