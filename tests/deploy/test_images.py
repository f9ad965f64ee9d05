"""How instructions are followed; `make nightly-images` follows them for real, as root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.deploy.dockerfile import steps
from tools.deploy.images import DOCKER, TRIED, Stage
from tools.deploy.manifests import ROOT


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_every_image_is_tried() -> None:
    assert {file.name for file in DOCKER.glob("*Dockerfile")} == TRIED.keys()


@pytest.mark.parametrize("name", TRIED)
def test_every_instruction_but_commands_and_stages_is_followed(name: str, stage: Stage) -> None:
    built = Stage(stage.root / "build")
    (built.root / "opt" / "penstock").mkdir(parents=True)
    for step in steps(DOCKER / name):
        if step.stage == 1 and step.word not in ("FROM", "RUN"):
            stage.follow(step.word, step.rest, {"build": built})
    assert (stage.root / "opt" / "penstock").is_dir()
    assert (stage.root / "data").is_dir()
    assert (stage.user, stage.folder) == ("10001:10001", "/data")
    assert stage.variables["PATH"].startswith("/opt/penstock/bin:/usr/")
    assert stage.command


def test_an_unknown_instruction_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match=r"HEALTHCHECK NONE: no such instruction"):
        stage.follow("HEALTHCHECK", "NONE", {})


def test_files_of_the_source_are_copied_into_the_folder_of_the_stage(stage: Stage) -> None:
    stage.follow("WORKDIR", "/src", {})
    stage.follow("COPY", "LICENSE ./", {})
    assert (stage.root / "src" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_command_has_the_variables_the_user_and_the_folder(stage: Stage) -> None:
    stage.follow("ARG", 'EXTRAS=""', {})
    stage.follow("ENV", "HOME=/data/$EXTRAS", {})
    stage.follow("USER", "10001:10001", {})
    stage.follow("WORKDIR", "/data", {})
    words = stage.words("nsqd", "--version")
    assert words[words.index("--userspec") + 1] == "10001:10001"
    assert words[words.index("-C") + 1] == "/data"
    assert {"EXTRAS=", "HOME=/data/"} <= set(words)
    assert words[-2:] == ["nsqd", "--version"]
