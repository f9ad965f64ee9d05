"""The wheel in a new environment of this Python; `make nightly-wheels` tries others, and pip."""

from __future__ import annotations

import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from penstock.core.distribution import DISTRIBUTION, pip_install
from tools.harness.environments import package_folders, site_packages
from tools.release import built, fresh

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with what it needs from this one."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    others = "".join(f"{each}\n" for each in package_folders())
    (site_packages(folder) / "others.pth").write_text(others)
    return folder


def test_it_is_the_wheel_that_is_imported(installed: Path) -> None:
    words = [str(installed / "bin" / "python"), "-c", "import penstock; print(penstock.__file__)"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=installed)
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_every_command_answers_and_a_message_goes_through(installed: Path, wheel: Path) -> None:
    assert list(fresh.faults(installed, built.commands(wheel))) == []


def test_an_extra_is_tried(installed: Path) -> None:
    """By its own work; that of Spark is left to `make nightly-wheels WITH=spark`."""
    assert list(fresh.faults_of_extras(installed, "arrow,acl")) == []


def test_an_extra_is_added_to_what_is_installed_without_an_index(installed: Path) -> None:
    """What errors advise works for a wheel or a clone, as pip keeps the version that is there."""
    _, _, *words = shlex.split(pip_install("acl"))
    pip = [sys.executable, "-m", "pip", "--python", str(installed / "bin" / "python"), "install"]
    done = subprocess.run([*pip, "--no-index", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"Requirement already satisfied: {DISTRIBUTION}[acl]" in done.stdout


def test_a_command_that_fails_is_named(installed: Path) -> None:
    (installed / "bin" / "broken").write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    (installed / "bin" / "broken").chmod(0o755)
    first, *_ = fresh.faults(installed, ["broken"])
    assert first == "broken --version: exit code 3, no such module\n"
