"""The log of each daemon as JSON, and what a start does not import."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon_commands import DAEMONS, command
from tools.harness.processes import rest_of

TIMEOUT_S = 60.0


@pytest.mark.parametrize("program", DAEMONS)
def test_every_line_of_a_daemons_log_is_an_object(program: str, tmp_path: Path) -> None:
    words = [*command(program, tmp_path), "--log-format=json"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as daemon:
        assert daemon.stderr is not None
        lines = [daemon.stderr.readline()]
        while b"listening on" not in lines[-1]:
            assert lines[-1], "ended before it listened"
            lines.append(daemon.stderr.readline())
        daemon.send_signal(signal.SIGTERM)
        rest = rest_of(daemon, TIMEOUT_S)
    for each in (*lines, *rest.splitlines()):
        found = json.loads(each)
        assert {"time", "level", "program", "logger", "message"} <= found.keys()
        assert found["program"] == program


def test_the_reason_why_a_daemon_does_not_start_is_an_object(tmp_path: Path) -> None:
    words = [*command("nsqd", tmp_path / "absent"), "--log-format=json"]
    done = subprocess.run(words, capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 1
    last = json.loads(done.stderr.splitlines()[-1])
    assert (last["level"], last["program"]) == ("fatal", "nsqd")


@pytest.mark.parametrize("program", DAEMONS)
def test_an_unknown_format_is_refused(program: str, tmp_path: Path) -> None:
    words = [*command(program, tmp_path), "--log-format=xml"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert "invalid log format 'xml' (text, json)" in done.stderr


# --- The cases of `core/settings/test_options.py` that need a port or a process ------------------


def test_importing_options_stays_light() -> None:
    code = "import sys, penstock.core.settings.options\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert not {b"tomllib", b"asyncio", b"numpy", b"msgspec", b"logging"} & set(loaded.split())
