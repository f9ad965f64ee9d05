"""The units, as systemd reads them, beside the configuration files that they name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.local_nodes import NodePorts
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from tests.debian import needed
from tools.deploy.manifests import ROOT

from .words import options_of

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
CONFIG = ROOT / "deploy" / "config"
BINARIES = "/opt/penstock/bin/"
EXPOSURE_MAX = 20
"""Tenths of systemd's points for what a service could do to the machine; most have 96."""


def name(unit: Path) -> str:
    return unit.name


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text().replace("\\\n", ""), re.MULTILINE)


def test_each_daemon_has_a_unit() -> None:
    daemons = {"nsqd", "nsqd@", "nsqlookupd", "nsqadmin", "mqnamesrv", "mqbroker"}
    assert {unit.stem for unit in UNITS} == daemons


@pytest.mark.parametrize("unit", UNITS, ids=name)
def test_the_unit_waits_for_notices_and_is_hardened(unit: Path) -> None:
    wanted = {"Type": "notify", "User": "penstock", "NoNewPrivileges": "yes",
              "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": "",
              "Restart": "on-failure"}  # fmt: skip
    assert {key: values(unit, key) for key in wanted} == {k: [v] for k, v in wanted.items()}
    assert values(unit, "WatchdogSec") == ["60s"]


@pytest.mark.parametrize("unit", UNITS, ids=name)
def test_the_unit_starts_a_program_with_a_sample_that_is_there(unit: Path) -> None:
    (command,) = values(unit, "ExecStart")
    program, *_ = command.split()
    assert program == BINARIES + unit.stem.rstrip("@")
    assert (Path(sys.executable).parent / program.removeprefix(BINARIES)).exists()
    (sample,) = re.findall(r"/etc/penstock/(\S+)", command)
    assert (CONFIG / sample).exists()


@pytest.mark.parametrize("unit", UNITS, ids=name)
def test_what_the_daemon_writes_lies_in_its_state_directory(unit: Path) -> None:
    (command,) = values(unit, "ExecStart")
    (sample,) = re.findall(r"/etc/penstock/(\S+)", command)
    text = (CONFIG / sample).read_text() if "%i" not in command else command
    for path in re.findall(r"/var/lib/(penstock/[\w%-]+)", text):
        assert values(unit, "StateDirectory") == [path]


def instance_options(number: int) -> Any:
    """What an instance of the template is started with, once systemd has put its number in."""
    template = ROOT / "deploy" / "systemd" / "nsqd@.service"
    (command,), (variable,) = values(template, "ExecStart"), values(template, "Environment")
    name, _, value = variable.partition("=")
    words = command.replace("%i", str(number)).replace(f"${{{name}}}", value).split()[1:]
    return options_of(["nsqd", *(word for word in words if not word.startswith("--config="))])


def test_the_number_of_an_instance_makes_its_ports_its_folder_and_its_id() -> None:
    """Instance 1 has NSQ's own ports; all are those of the same node of ``penstock up --nodes``."""
    for number in range(1, 10):
        options, ports = instance_options(number), NodePorts.of(number)
        assert options.tcp_address == f"0.0.0.0:{ports.tcp}"
        assert options.http_address == f"0.0.0.0:{ports.http}"
        assert options.https_address == f"0.0.0.0:{ports.http + 1}"
        assert options.data_path == f"/var/lib/penstock/nsqd-{number}"
        assert options.node_id == number
    assert instance_options(1).tcp_address == NsqdOptions().tcp_address


@pytest.fixture
def runnable(tmp_path: Path) -> Path:
    """A folder with the units, whose programs are those of this installation."""
    here = f"{Path(sys.executable).parent}/"
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace(BINARIES, here))
    return tmp_path


@pytest.mark.parametrize(
    "words", [["verify"], ["security", "--offline=true", f"--threshold={EXPOSURE_MAX}"]], ids=str
)
def test_systemd_accepts_the_units(words: list[str], runnable: Path) -> None:
    """By systemd's own program, which needs no running systemd."""
    program = needed("systemd-analyze", "systemd")
    for unit in sorted(runnable.iterdir()):
        instance = unit.rename(unit.with_name(unit.name.replace("@.", "@1.")))
        done = subprocess.run([program, *words, str(instance)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
