"""Our mqadmin prints what upstream's printed: on our servers, column by column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.rocketmq.mqadmin.help import usage
from penstock.rocketmq.mqadmin.options import SubCommand
from penstock.rocketmq.mqadmin.program import run
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS
from tests.conformance.mqadmin_scene import (
    COMMANDS,
    SAMPLES,
    USAGES,
    Scene,
    masked,
    options_of,
    run_scene,
)
from tests.programs.rocketmq.client.servers import Servers, run_servers

RECORDED = json.loads(SAMPLES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with run_servers() as found:
        yield found


@pytest.fixture(scope="module")
def scene(servers: Servers) -> Iterator[Scene]:
    with run_scene(servers.address, servers.broker.rocketmq) as found:
        yield found


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # consumerStatus writes files where it is run


def test_the_commands_are_those_that_were_recorded() -> None:
    assert [command for command, _ in RECORDED] == COMMANDS


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS)
def test_the_output_is_upstreams(
    number: int, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[number]
    assert run(scene.words(command)) == 0
    found = capsys.readouterr()
    name = command.split()[0]
    error = found.err.removeprefix(f"mqadmin {name}: ").splitlines()
    assert masked(command, found.out, error[0] if error else "") == RECORDED[number][1]


@pytest.mark.parametrize("command", SUB_COMMANDS, ids=lambda each: each.name)
def test_the_options_are_upstreams(command: SubCommand) -> None:
    recorded = json.loads(USAGES.read_text(encoding="utf-8"))
    assert options_of(usage(command)) == recorded[command.name]


def test_every_sub_command_prints_json(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [command for command in COMMANDS if not command.startswith(("delete", "update"))]
    for command in shown:
        name, *words = scene.words(command)
        failed = run([name, "--json", *words])
        found = json.loads(capsys.readouterr().out)
        assert failed == int("error" in found), command
