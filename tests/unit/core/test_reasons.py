from __future__ import annotations

import errno
import os
import socket

import pytest

from penstock.core.reasons import lookup_words, reason, system_words


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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect failed, [Errno 99] Cannot assign"),
            "cannot assign requested address",
        ),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), ""),
        (TimeoutError(), ""),
        (ValueError("no port"), ""),
    ],
)
def test_the_systems_words(error: Exception, words: str) -> None:
    assert system_words(error) == words


def test_hosts_that_are_not_found() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert lookup_words(unknown) == "no such host"
    assert lookup_words(socket.gaierror(-3, "Temporary failure")) == "temporary failure"
