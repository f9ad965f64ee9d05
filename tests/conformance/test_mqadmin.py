"""Our mqadmin prints what upstream's printed: on our servers, column by column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.posix_parser import SubCommand, usage
from penstock.rocketmq.mqadmin.program import run
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS
from tests.unit.rocketmq.mqadmin.fake_admin import interrupted
from tools.harness.rocketmq.servers import Servers, run_servers
from tools.replay.mqadmin_scene import (
    COMMANDS,
    ENDS,
    RULES,
    SAMPLES,
    USAGES,
    WITH_RULES,
    Scene,
    masked,
    options_of,
    run_scene,
    scene_with_rules,
    write_account,
)

RECORDED = json.loads(SAMPLES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with run_servers() as found:
        yield found


@pytest.fixture(scope="module")
def scene(servers: Servers) -> Iterator[Scene]:
    with run_scene(servers.address, servers.broker.rocketmq) as found:
        yield found


@pytest.fixture(scope="module")
def with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("rules")
    (home / "plain_acl.yml").write_text(RULES)
    with (
        run_servers(aclEnable="true", nsqOpen="true", aclDirectory=home) as servers,
        scene_with_rules(servers.address, servers.broker.rocketmq) as found,
    ):
        yield found


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # consumerStatus writes files where it is run
    write_account(tmp_path)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    monkeypatch.setattr(rounds, "pause", interrupted)


def _code(command: str) -> int:
    """The exit code that a command has, of those that go on when they are interrupted."""
    return 130 if command.split()[0] in ENDS else 0


def test_the_commands_are_those_that_were_recorded() -> None:
    assert [command for command, _ in RECORDED] == COMMANDS + WITH_RULES


def test_every_sub_command_was_recorded() -> None:
    recorded = {command.split()[0] for command, _ in RECORDED}
    assert recorded == {each.name for each in SUB_COMMANDS}


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS)
def test_the_output_is_upstreams(
    number: int, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(number, scene, capsys)


@pytest.mark.parametrize("number", range(len(COMMANDS), len(RECORDED)), ids=WITH_RULES)
def test_the_output_about_access_rules_is_upstreams(
    number: int, with_rules: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(number, with_rules, capsys)


def _check(number: int, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    command, recorded = RECORDED[number]
    assert run(scene.words(command)) == _code(command)
    found = capsys.readouterr()
    name = command.split()[0]
    error = found.err.removeprefix(f"mqadmin {name}: ").splitlines()
    assert masked(command, scene.whole(found.out), error[0] if error else "") == recorded


@pytest.mark.parametrize("command", SUB_COMMANDS, ids=lambda each: each.name)
def test_the_options_are_upstreams(command: SubCommand) -> None:
    recorded = json.loads(USAGES.read_text(encoding="utf-8"))
    assert options_of(usage(command)) == recorded[command.name]


def test_every_sub_command_prints_json(
    scene: Scene, with_rules: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole scene once more, and what failed fails again."""
    for number, (command, recorded) in enumerate(RECORDED):
        name, *words = (scene if number < len(COMMANDS) else with_rules).words(command)
        failed = any(line.startswith("! ") for line in recorded)
        assert run([name, "--json", *words]) == (1 if failed else _code(command)), command
        found = json.loads(capsys.readouterr().out)
        assert ("error" in found) == failed, command
