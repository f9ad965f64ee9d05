from __future__ import annotations

import re

import pytest

from penstock.nsq.tools.to_nsq.bar import bar


def test_a_bar_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with bar(2000) as advance:
        advance(1500)
        advance(500)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search(r"100% 2\.0/2\.0 kB", shown.err)
