"""Tests of files as far as they need no Spark; the rest is in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.testing import run_tests
from penstock.spark.pipelines import PipelineFileError


def test_a_file_without_tests_starts_no_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text("[source]\ntopic = 't'\nnsqd_http_address = 'h:1'\n[sink]\nformat = 'console'")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    run_tests([file])
    assert capsys.readouterr().out == f"{file}: no [[tests]]\n"
    with pytest.raises(PipelineFileError, match="cannot be read"):
        run_tests([tmp_path / "missing.toml"])
