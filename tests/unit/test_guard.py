"""The guard of the tests below this folder."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest


def test_a_port_is_refused() -> None:
    with socket.socket() as some, pytest.raises(pytest.fail.Exception, match="tests/programs"):
        some.bind(("127.0.0.1", 0))


def test_a_process_is_refused() -> None:
    with pytest.raises(pytest.fail.Exception, match="tests/programs"):
        subprocess.run([sys.executable, "-c", ""], check=True)
