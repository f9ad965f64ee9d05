"""The cases of `cli/shared/test_open_doors.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.testing.daemons import run_nsqd
from tests.conformance.certificates import Certificates
from tests.programs.cli.shared.test_rocketmq_port import rocketmq_port
from tests.unit.rocketmq.raw_client import RawClient


def nsqd(*flags: str, data_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.nsqd", "--tcp-address=127.0.0.1:0",
         "--http-address=127.0.0.1:0", f"--data-path={data_path}",
         "--rocketmq-address=127.0.0.1:0", *flags],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_nsqd_does_not_start_with_an_open_door(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    keys = (f"--tls-cert={certificates.cert}", f"--tls-key={certificates.key}")
    for flags in (("--tls-required=true", *keys), ("--auth-http-address=127.0.0.1:1",)):
        ended = nsqd(*flags, data_path=tmp_path)
        assert ended.returncode == 1
        (line,) = [line for line in ended.stderr.splitlines() if "FATAL" in line]
        assert "--rocketmq-address=127.0.0.1:0 opens to everybody what" in line
        assert "or use --rocketmq-open" in line
        assert "Traceback" not in ended.stderr


def test_nsqd_starts_when_it_is_told_that_the_door_is_open(tmp_path: Path) -> None:
    flags = ("--auth-http-address=127.0.0.1:1", "--rocketmq-address=127.0.0.1:0")
    with run_nsqd(*flags, "--rocketmq-open", data_path=tmp_path) as daemon:
        client = RawClient(rocketmq_port(daemon))
        assert client.ask(28).code == 0
        client.close()
