"""What a gap of coverage is, and what is at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools import coverage
from tools.coverage import Gap, faults, gaps, main

REPORT: dict[str, Any] = {
    "files": {
        "src/penstock/storage/log.py": {
            "functions": {
                "Log.append": {"missing_lines": [], "missing_branches": []},
                "Log.trim": {"missing_lines": [7], "missing_branches": [[5, 7], [7, 8]]},
            }
        }
    }
}


def test_a_gap_is_a_function_with_lines_or_branches_that_no_test_takes() -> None:
    (gap,) = gaps(REPORT)
    assert gap == Gap("storage/log.py:Log.trim", (7,), ((5, 7),))
    assert str(gap) == "storage/log.py:Log.trim: 7, 5->7"


def test_gaps_need_a_reason_and_reasons_a_gap() -> None:
    found = list(gaps(REPORT))
    assert faults(found, {"storage/log.py:Log.trim": "why"}) == []
    assert faults(found, {}) == ["not covered: storage/log.py:Log.trim: 7, 5->7"]
    assert faults([], {"storage/log.py:Log.trim": "why"}) == [
        "covered by now: storage/log.py:Log.trim"
    ]


def test_only_what_is_at_fault_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(coverage, "REASONS", tmp_path / "coverage.toml")
    monkeypatch.setattr(coverage, "measured", lambda: REPORT | {"totals": {"percent_covered": 98}})
    coverage.REASONS.write_text('"storage/log.py:Log.trim" = "why"')
    main()
    assert capsys.readouterr().out == "98.00 % of lines and branches are covered\n"
    coverage.REASONS.write_text("")
    with pytest.raises(SystemExit, match=r"^not covered: storage/log\.py:Log\.trim: 7, 5->7$"):
        main()


def test_a_run_beside_it_leaves_its_tests_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["coverage", "--left-out"])
    main()
    left_out = capsys.readouterr().out.split()
    assert "--ignore=tests/unit/storage" in left_out
    assert [Path(each.removeprefix("--ignore=")).is_dir() for each in left_out] == [True] * len(
        left_out
    )
