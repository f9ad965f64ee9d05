"""The mqnamesrv command as a user starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tools.harness.rocketmq.raw_client import RawClient

COMMAND = [sys.executable, "-m", "penstock.cli.mqnamesrv"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_it_serves_until_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "ns.properties"
    config.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv\nodd=1\n")
    with subprocess.Popen(
        [*COMMAND, "-c", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("The Name Server boot success, port ")
        client = RawClient(int(line.split()[-1]))
        assert client.ask(206).code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "the property odd is unknown" in process.stderr.read()
        client.close()


def test_a_file_of_something_else_is_said_to_be_one(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("buy milk\n")
    printed = run("-p", "-c", str(notes))
    assert (printed.returncode, printed.stdout[:16]) == (0, "listenPort=9876\n")
    assert printed.stderr.splitlines()[-1].endswith(
        f"{notes} sets nothing that this program knows, so all properties have their defaults: "
        "name the right file with -c"
    )
    notes.write_text("buy milk\nlistenPort=1\n")
    assert "sets nothing" not in run("-p", "-c", str(notes)).stderr


def test_printing_the_properties() -> None:
    printed = run("-p")
    assert printed.returncode == 0
    assert printed.stdout.startswith("listenPort=9876\n")


def test_what_cannot_start_says_so_in_one_line(tmp_path: Path) -> None:
    missing = run("-c", str(tmp_path / "none"))
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "failed to load" in missing.stderr
    bad = tmp_path / "bad"
    bad.write_text("listenPort=x")
    assert "listenPort must be a number" in run("-c", str(bad)).stderr
    assert run("--log-level", "loud").returncode == 2
