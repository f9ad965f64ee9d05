from __future__ import annotations

import sys

import pytest

from penstock.nsq.tools.entry import enter, version_text


def test_version_text() -> None:
    assert version_text("nsq_tail") == "nsq_tail v1.3.0"


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_the_version_needs_no_module(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nsq_tail", flag])
    with pytest.raises(SystemExit) as left:
        enter("nsq_tail", "no.such.module")
    assert left.value.code == 0
    assert capsys.readouterr().out == "nsq_tail v1.3.0\n"


def test_what_a_tool_refuses_is_its_line_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["to_nsq"])
    with pytest.raises(SystemExit) as left:
        enter("to_nsq", "penstock.nsq.tools.to_nsq")
    assert left.value.code == 1
    assert capsys.readouterr().err.endswith(" --topic required\n")
