"""A report counts what is more than a note."""

from __future__ import annotations

import msgspec

from penstock.cli.doctor.report import Finding, Level, Report, error, warning


def test_a_note_is_no_fault() -> None:
    findings = [error("a", "w", "x", "r"), warning("b", "w", "x", "r"),
                Finding(Level.NOTE, "c", "w", "x", "r")]  # fmt: skip
    report = Report(findings, ["w"])
    assert [each.code for each in report.faults] == ["a", "b"]
    assert msgspec.json.decode(msgspec.json.encode(report))["findings"][0] == {
        "level": "error", "code": "a", "where": "w", "what": "x", "remedy": "r"
    }  # fmt: skip
