"""Validation as far as it needs no Spark; the rest is in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.checks import run_tests, run_validate
from penstock.cli.pipeline.init import write_file
from penstock.spark.pipelines import PipelineFileError


def test_keys_of_all_files_are_checked_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong, missing = (tmp_path / f"{name}.toml" for name in ("right", "wrong", "missing"))
    write_file("metrics", right)
    wrong.write_text("[source]\n[sink]\nformat = 1\n")
    capsys.readouterr()
    run_validate([right], with_spark=False)
    assert capsys.readouterr().out == f"{right}: keys and options of right are right\n"
    with pytest.raises(SystemExit) as ended:
        run_validate([wrong, missing, right], with_spark=False)
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert [line.split(" ")[1] for line in err.splitlines()] == [f"{wrong}:1:", f"{missing}"]


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
