"""Our mqadmin beside upstream's, on Java's servers or ours.

Each runs the commands of the recorded scene on servers of its own. `PENSTOCK_ROCKETMQ_JAVA` names
the folder with the jars of 4.9, `PENSTOCK_MQBROKER` and `PENSTOCK_MQNAMESRV` the servers.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.mqadmin_scene import COMMANDS, Scene, masked, run_scene
from tests.conformance.record_mqadmin import java_tool, record

from .rocketmq_programs import run_servers
from .test_rocketmq_java import FOLDERS, VARIABLE, missing

pytestmark = pytest.mark.interop
Outputs = dict[str, list[str]]


@contextmanager
def _scene(home: Path) -> Iterator[Scene]:
    with (
        run_servers(home) as servers,
        run_scene(servers.address, f"127.0.0.1:{servers.broker_port}") as scene,
    ):
        yield scene


def _ours(scene: Scene, home: Path) -> Outputs:
    found = {}
    for command in COMMANDS:
        words = scene.words(command)
        process = subprocess.run(
            [sys.executable, "-m", "penstock.cli.mqadmin", *words],
            capture_output=True, text=True, cwd=home,
        )  # fmt: skip
        error = process.stderr.removeprefix(f"mqadmin {words[0]}: ").splitlines()
        found[command] = masked(command, process.stdout, error[0] if error else "")
    return found


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outputs, Outputs]:
    """Upstream's and ours, by command."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if not any(name.startswith("4.9") for name in FOLDERS):
        pytest.skip(f"{VARIABLE} names no client 4.9")
    home = tmp_path_factory.mktemp("mqadmin")
    with java_tool(home / "java") as tool, _scene(home / "first") as scene:
        upstream = dict(record(scene, tool))
    with _scene(home / "second") as scene:
        return upstream, _ours(scene, home)


@pytest.mark.parametrize("command", COMMANDS)
def test_both_print_the_same(command: str, outputs: tuple[Outputs, Outputs]) -> None:
    upstream, ours = outputs
    assert ours[command] == upstream[command]
