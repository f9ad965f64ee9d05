"""Our mqadmin beside upstream's, on our servers and on Java's.

Each runs the commands of the recorded scene on servers of its own. `PENSTOCK_ROCKETMQ_JAVA` names
the folder with the jars of 4.9, and of its broker.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.harness.processes import rest_of
from tools.harness.rocketmq.java import FOLDERS, VARIABLE, missing
from tools.harness.rocketmq.java_servers import SERVERS, variables
from tools.harness.rocketmq.programs import Servers, run_servers
from tools.replay.mqadmin_scene import (
    ACCOUNT,
    COMMANDS,
    ENDS,
    RULES,
    WITH_RULES,
    Scene,
    masked,
    run_scene,
    scene_with_rules,
    write_account,
)
from tools.replay.record_mqadmin import java_tool, record

Outputs = dict[str, list[str]]
OF_JAVA = [version for version in SERVERS if version.startswith("4.9")]
ENDS_WITHIN_S = 60.0


@contextmanager
def _scene(home: Path) -> Iterator[Scene]:
    with (
        run_servers(home) as servers,
        run_scene(servers.address, _broker(servers)) as scene,
    ):
        yield scene


@contextmanager
def _scene_with_rules(home: Path, rules: Path) -> Iterator[Scene]:
    """``rules`` is where Java's broker looks for them."""
    rules.mkdir(parents=True, exist_ok=True)
    (rules / "plain_acl.yml").write_text(RULES)
    opened = {"aclEnable": "true", "nsqOpen": "true", "aclDirectory": rules}
    with (
        run_servers(home, ACCOUNT, **opened) as servers,
        scene_with_rules(servers.address, _broker(servers)) as scene,
    ):
        yield scene


def _broker(servers: Servers) -> str:
    return f"127.0.0.1:{servers.broker_port}"


def _ours(scene: Scene, home: Path, commands: Sequence[str]) -> Outputs:
    write_account(home)
    found = {}
    for command in commands:
        words = scene.words(command)
        output, error = _run(words, home)
        told = error.removeprefix(f"mqadmin {words[0]}: ").splitlines()
        found[command] = masked(command, scene.whole(output), told[0] if told else "")
    return found


def _run(words: list[str], home: Path) -> tuple[str, str]:
    """What a command prints, and its errors; one that goes on is interrupted after a round."""
    end = ENDS.get(words[0])
    output = ""
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.mqadmin", *words], cwd=home, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "ROCKETMQ_HOME": str(home)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        if end is not None:
            while end not in output:
                line = process.stdout.readline()
                assert line, output
                output += line
            process.send_signal(signal.SIGINT)
        output += rest_of(process, ENDS_WITHIN_S)
        return output, process.stderr.read()


@pytest.fixture(scope="module", params=["ours", *OF_JAVA])
def outputs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Outputs, Outputs]]:
    """Upstream's and ours, by command."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if not any(name.startswith("4.9") for name in FOLDERS):
        pytest.skip(f"{VARIABLE} names no client 4.9")
    home = tmp_path_factory.mktemp("mqadmin")
    java = home / "java"
    rules = java / "conf"
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "ours":
            for name, command in variables(SERVERS[request.param], java).items():
                patch.setenv(name, command)
        with java_tool(home / "tool") as tool:
            with _scene(home / "first") as scene:
                upstream = dict(record(scene, tool, COMMANDS))
            with _scene_with_rules(home / "second", rules) as scene:
                upstream |= record(scene, tool, WITH_RULES)
        with _scene(home / "third") as scene:
            ours = _ours(scene, home, COMMANDS)
        with _scene_with_rules(home / "fourth", rules) as scene:
            ours |= _ours(scene, home, WITH_RULES)
        yield upstream, ours


@pytest.mark.parametrize("command", dict.fromkeys([*COMMANDS, *WITH_RULES]))
def test_both_print_the_same(command: str, outputs: tuple[Outputs, Outputs]) -> None:
    upstream, ours = outputs
    assert _alike(ours[command]) == _alike(upstream[command])


def _alike(lines: list[str]) -> list[str]:
    """Lines without what depends on the moment: Java's broker marks a topic as ordered when it has
    registered again, and has no value of a figure before the first one.
    """
    lines = [re.sub(r"(\.order): \w+", r"\1: <LATER>", line) for line in lines]
    return [re.sub(r"\s+:$", "", line) for line in lines]
