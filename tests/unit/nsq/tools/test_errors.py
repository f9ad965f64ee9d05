from __future__ import annotations

import errno
import re

import pytest

from penstock.nsq.client.errors import NotConnected
from penstock.nsq.tools.errors import (
    OutputClosed,
    ToolError,
    describe,
    exit_code,
    leave_with,
    say,
    writing_stdout,
)

TIME = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def test_a_line_as_go_logs_it(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    assert re.fullmatch(f"{TIME} hello\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ToolError("--topic required"), 1, "--topic required"),
        (ToolError("late", code=3), 3, "late"),
        (ExceptionGroup("", [ExceptionGroup("", [ToolError("inner")])]), 1, "inner"),
        (KeyError("x"), 1, "unexpected KeyError: 'x'"),
    ],
)
def test_one_line_and_a_code(
    error: Exception, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(error) == code
    assert re.fullmatch(f"{TIME} {re.escape(text)}\n", capsys.readouterr().err)


def test_an_error_that_was_logged_already_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(ToolError()) == 1
    assert capsys.readouterr().err == ""


def test_reasons() -> None:
    refused = "dial tcp h:1: connect: connection refused"
    assert describe(NotConnected("h:1", refused)) == refused
    assert describe(NotConnected("h:1", "closed")) == "h:1: closed"
    assert describe(OSError(errno.ENOSPC, "No space left on device", "/f")) == (
        "/f: no space left on device"
    )
    assert describe(ValueError("two\nlines")) == "unexpected ValueError: two lines"


def test_writing_to_nobody_and_to_a_full_disk() -> None:
    with pytest.raises(OutputClosed), writing_stdout():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    with pytest.raises(ToolError) as caught, writing_stdout():
        raise OSError(errno.ENOSPC, "No space left on device")
    reason = "write /dev/stdout: no space left on device"
    assert str(caught.value) == f"ERROR: failed to write to os.Stdout - {reason}"


def test_a_whole_program() -> None:
    with pytest.raises(SystemExit) as left, leave_with():
        raise ToolError("no", code=4)
    assert left.value.code == 4
