"""What a gap of coverage is, and what is at fault."""

from __future__ import annotations

from typing import Any

from tests.coverage import Gap, faults, gaps

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
