"""The pipeline's file of ``demo`` and ``up``: written once, kept when it was edited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.live import archive_file
from penstock.core.errors import PenstockError
from penstock.spark.pipelines.document import PipelineFileError


def test_it_is_what_init_writes_with_the_run_s_own_places(tmp_path: Path) -> None:
    file = archive_file.write(tmp_path, "flights", "127.0.0.1:5", rows_per_batch=100)
    assert file == tmp_path / "archive.toml"
    spec = archive_file.load(tmp_path, "127.0.0.1:6").spec
    assert spec.name == "archive"
    assert spec.source.options == {
        "topic": "flights", "lookupd_http_address": "127.0.0.1:6", "startingOffsets": "earliest",
        "maxRecordsPerTrigger": "100",
    }  # fmt: skip
    assert spec.sink.options["path"] == f"{tmp_path}/archive"
    assert spec.sink.partition_by == ("topic", "date", "hour")
    assert (spec.run.every_ms, spec.run.checkpoint) == (500, f"{tmp_path}/checkpoint")
    assert len(spec.tests) == 1


def test_without_the_command_s_variable_it_names_the_last_address(tmp_path: Path) -> None:
    from penstock.spark.pipelines import Pipeline

    spec = Pipeline.from_file(archive_file.write(tmp_path, "*", "127.0.0.1:5"), {}).spec
    assert spec.source.options["lookupd_http_address"] == "127.0.0.1:5"
    assert "maxRecordsPerTrigger" not in spec.source.options


def test_an_edited_file_stays(tmp_path: Path) -> None:
    file = archive_file.write(tmp_path, "*", "127.0.0.1:5")
    file.write_text(file.read_text().replace('every = "500ms"', 'every = "1m"'))
    archive_file.write(tmp_path, "*", "127.0.0.1:7")
    assert archive_file.load(tmp_path, "127.0.0.1:7").spec.run.every_ms == 60_000
    file.write_text("[sours]")
    with pytest.raises(PipelineFileError, match=r"archive\.toml:1: .* did you mean source"):
        archive_file.load(tmp_path, "127.0.0.1:7")


def test_a_folder_with_any_name(tmp_path: Path) -> None:
    folder = tmp_path / 'ö \U0001f680 "#\\'
    folder.mkdir()
    archive_file.write(folder, "*", "127.0.0.1:5")
    assert archive_file.load(folder, "127.0.0.1:5").spec.sink.options["path"] == f"{folder}/archive"


def test_a_folder_whose_name_toml_cannot_have(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    with pytest.raises(PenstockError, match="TOML is UTF-8, which the folder's name is not"):
        archive_file.write(folder, "*", "127.0.0.1:5")
    assert not list(folder.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"archive\.toml cannot be written: No such file"):
        archive_file.write(tmp_path / "gone", "*", "127.0.0.1:5")
