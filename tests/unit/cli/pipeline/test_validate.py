"""Validation as far as it needs no Spark; the rest is in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.init import write_file
from penstock.cli.pipeline.validate import run_validate


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
