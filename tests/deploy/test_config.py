"""The sample configurations, each loaded by its daemon."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.core.settings import java_properties
from penstock.testing.daemons import run_nsqlookupd
from tools.deploy.manifests import ROOT
from tools.harness.processes import rest_of

CONFIG = ROOT / "deploy" / "config"
SAMPLES = sorted(CONFIG.iterdir())
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def lookupd() -> Iterator[str]:
    """The HTTP address of an nsqlookupd, as the samples expect one."""
    with run_nsqlookupd() as daemon:
        yield daemon.http


def elsewhere(sample: Path, home: Path, lookupd: str) -> Path:
    """A copy whose ports are free ones of this host alone, whose nsqlookupd is ``lookupd``, and
    whose folders are below ``home``.
    """
    text = re.sub(
        r'^(\w*_address = )"[\d.]+:\d+"', r'\1"127.0.0.1:0"', sample.read_text(), flags=re.M
    )
    text = re.sub(r"^listenPort=\d+", "listenPort=0", text, flags=re.M)
    text = re.sub(r"^(monitoringAddress=[\d.]+):\d+", r"\1:0", text, flags=re.M)
    text = text.replace("bindAddress=0.0.0.0", "bindAddress=127.0.0.1")
    text = text.replace("127.0.0.1:4161", lookupd)
    text = text.replace("namesrvAddr=127.0.0.1:9876", "namesrvAddr=")
    copy = home / sample.name
    copy.write_text(text.replace("/var/lib/penstock", str(home)))
    return copy


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample.name))
def test_the_daemon_starts_on_its_sample_and_finds_nothing_strange(
    sample: Path, tmp_path: Path, lookupd: str
) -> None:
    program = sample.stem
    (tmp_path / program).mkdir()
    flag = "--config" if sample.suffix == ".toml" else "-c"
    words = [
        sys.executable,
        "-m",
        f"penstock.cli.{program}",
        flag,
        str(elsewhere(sample, tmp_path, lookupd)),
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as daemon:
        assert daemon.stderr is not None
        lines = [daemon.stderr.readline()]
        while b"listening on" not in lines[-1]:
            assert lines[-1], b"".join(lines).decode()
            lines.append(daemon.stderr.readline())
        daemon.send_signal(signal.SIGTERM)
        rest = rest_of(daemon, TIMEOUT_S)
    log = (b"".join(lines) + rest).decode()
    assert daemon.returncode == 0
    assert not re.search("WARNING|ERROR|unknown|no effect", log), log


def test_each_daemon_has_a_sample() -> None:
    daemons = {"nsqd", "nsqlookupd", "nsqadmin", "mqnamesrv", "mqbroker"}
    assert {sample.stem for sample in SAMPLES} == daemons


def test_the_samples_open_what_the_sample_of_prometheus_asks_for() -> None:
    """An alert that a program is down must not fire where all samples are used together."""
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    asked = {
        job["job_name"]: [int(each.rpartition(":")[2]) for each in static["targets"]]
        for job in config["scrape_configs"]
        for static in job["static_configs"]
    }
    assert asked.keys() == {sample.stem for sample in SAMPLES}
    for sample in SAMPLES:
        if sample.suffix == ".toml":
            options = tomllib.loads(sample.read_text())
            assert options["metrics"] is True
            address = options["http_address"]
        else:
            address = java_properties.loads(sample.read_text())["monitoringAddress"]
        assert [int(address.rpartition(":")[2])] == asked[sample.stem]
