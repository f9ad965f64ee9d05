"""A Dockerfile's instructions, and those of them that a machine without containers can follow."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .manifests import ROOT


class Step(NamedTuple):
    """One instruction, in the stage of the FROM above it."""

    stage: int
    word: str
    rest: str


def steps(path: Path) -> list[Step]:
    """All instructions of a file that continues no line."""
    found: list[Step] = []
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if line and not line.startswith("#"):
            stage = len([each for each in found if each.word == "FROM"]) - (word != "FROM")
            found.append(Step(stage, word, rest))
    return found


def context_copy(rest: str, target: Path) -> None:
    """COPY of files of the build's context."""
    *sources, destination = rest.split()
    for source in sources:
        found = ROOT / source
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(found, target / destination, ignore=ignored)
        else:
            shutil.copy(found, target / destination)


def build(path: Path, scratch: Path) -> Path:
    """Follow the first stage, below ``scratch`` instead of /; the environment that it makes.

    Its base is this Python instead of the image, and files of the system are those of the machine.
    """
    source, environment = scratch / "src", scratch / "opt" / "penstock"
    source.mkdir()
    for step in steps(path):
        if step.stage == 0 and step.word == "COPY":
            context_copy(step.rest, source)
        elif step.stage == 0 and step.word == "RUN":
            command = step.rest.replace("/opt/penstock", str(environment))
            if command.startswith("python "):
                command = f"{sys.executable}{command.removeprefix('python')}"
            subprocess.run(["sh", "-ec", command], cwd=source, check=True, timeout=500)
    return environment
