from __future__ import annotations

import errno
import os
import socket

import pytest

from penstock.core.reasons import reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused"),
        (socket.gaierror(-3, "Temporary failure"), "temporary failure"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect failed, [Errno 99] Cannot assign"),
            "Multiple exceptions: connect failed, cannot assign",
        ),
        (ValueError("no port"), "no port"),
        (TimeoutError(), "timed out"),
        (EOFError(), "EOFError"),
    ],
)
def test_reason(error: Exception, text: str) -> None:
    assert reason(error) == text


def test_a_file_that_is_missing() -> None:
    with pytest.raises(OSError) as failed:
        os.stat("/nowhere")
    assert reason(failed.value) == "no such file or directory: '/nowhere'"
