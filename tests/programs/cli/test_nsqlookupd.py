"""The program as a user starts it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tools.harness.streams import exactly

PROGRAM = [sys.executable, "-m", "penstock.cli.nsqlookupd"]
ANYWHERE = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *flags], capture_output=True, text=True, timeout=60)


@pytest.fixture
def started() -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen([*PROGRAM, *ANYWHERE], stderr=subprocess.PIPE, text=True)
    yield program
    program.kill()
    program.communicate()


def listening(program: subprocess.Popen[str]) -> dict[str, int]:
    """The ports from the log, as other programs find them."""
    ports: dict[str, int] = {}
    assert program.stderr is not None
    while len(ports) < 2:
        line = program.stderr.readline()
        assert line, "ended before it listened"
        found = re.search(r"INFO: (TCP|HTTP): listening on 127\.0\.0\.1:(\d+)$", line)
        if found:
            ports[found[1]] = int(found[2])
    return ports


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_starts_and_ends_cleanly(started: subprocess.Popen[str], number: int) -> None:
    ports = listening(started)
    with socket.create_connection(("127.0.0.1", ports["TCP"]), 30) as peer:
        peer.sendall(b"  V1PING\n")
        assert exactly(peer, 6) == b"\0\0\0\2OK"
        started.send_signal(number)
        assert started.wait(60) == 0
    assert started.stderr is not None
    rest = started.stderr.read()
    assert rest.splitlines()[-1].endswith("INFO: bye") or "INFO: bye\n" in rest
    assert "Traceback" not in rest


def test_a_taken_port_is_one_line_and_code_1(started: subprocess.Popen[str]) -> None:
    address = f"127.0.0.1:{listening(started)['HTTP']}"
    ended = run("--tcp-address=127.0.0.1:0", f"--http-address={address}")
    assert ended.returncode == 1
    version, refusal = ended.stderr.splitlines()  # and none that says that the other port is open
    assert "INFO: nsqlookupd v" in version
    assert refusal.endswith(
        f"FATAL: failed to instantiate nsqlookupd - listen ({address}) failed"
        f" - listen tcp {address}: bind: address already in use"
    )
    assert "Traceback" not in ended.stderr


def test_help() -> None:
    ended = run("--help")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("Usage of nsqlookupd:\n  -broadcast-address string\n")
