"""The comparing of texts with placeholders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.harness.samples import load, matches


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("OK", "OK", True),
        ("OK", "OK\n", False),
        ('{"port":{port}}', '{"port":4150}', True),
        ('{"port":{port}}', '{"port":"x"}', False),
        ('{"at":{ns}}', '{"at":-6795364578871345152}', True),
        ("id <int> of {unknown}", "id 7 of {unknown}", True),
        ("took {duration}", "took 1m2.5s", True),
        ("took {duration}", "took 5", False),
        ("{ts} INFO", "2026/01/31 10:11:12.123456 INFO", True),
        ("nsqd v<version> (built w/<go>)\n", "nsqd v1.3.0 (built w/go1.26.8)\n", True),
        ("nsqd v<version> (built w/<go>)\n", "nsqd v1.3.0 (built w/go 1.26)\n", False),
        ("a.c", "abc", False),
    ],
)
def test_matches(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_values_must_match_exactly() -> None:
    assert matches("at {host}", "at box", {"host": "box"})
    assert not matches("at {host}", "at other", {"host": "box"})


def test_load_keeps_the_order(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"name": "a"}\n\n{"name": "b"}\n')
    assert [case["name"] for case in load(file)] == ["a", "b"]
