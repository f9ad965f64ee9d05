"""RocketMQ's own Java client, of any version that is at hand, with our broker and name server.

`PENSTOCK_ROCKETMQ_JAVA` names one folder or more (`:` between them) with the jars of a client and
of its tools, as `mvn dependency:copy-dependencies` lays them out for the artifacts rocketmq-client
and rocketmq-tools. Without it, or without a JDK, the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from . import rocketmq_flow as flow
from .rocketmq_play import Client, constants_env, play_flows

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
VARIABLE = "PENSTOCK_ROCKETMQ_JAVA"
FOLDERS = [Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
MODES = (
    "broker", "namesrv", "retry", "send", "batch", "orderly", "filter", "sql", "pull", "lite-pull",
    "share", "broadcast", "resume", "transaction", "request", "query", "reset", "running-info",
    "create",
)  # fmt: skip
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


def version(folder: Path) -> str:
    """The client's version, as its jar says."""
    (jar,) = folder.glob("rocketmq-client-[0-9]*.jar")
    return jar.stem.removeprefix("rocketmq-client-")


def missing() -> str | None:
    """Why the tests cannot be run here; None when they can."""
    if not FOLDERS:
        return f"{VARIABLE} names no folder with the jars of RocketMQ's Java client"
    both = shutil.which("java") and shutil.which("javac")
    return None if both else "java and javac are not on PATH"


def compile_java(folder: Path, classes: Path, *names: str) -> str:
    """Compile these programs against a client; returns their class path."""
    classes.mkdir(exist_ok=True)
    sources = [str(HERE / "java" / f"{name}.java") for name in names]
    lint = ["-Xlint:all", "-Werror"]
    command = ["javac", *lint, "-d", str(classes), "-cp", f"{folder}/*", *sources]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return f"{classes}{os.pathsep}{folder}/*"


def client_of(folder: Path, home: Path) -> Client:
    """The program with the flows, with the client's timers as short as they can be."""
    class_path = compile_java(folder, home / version(folder), "Flows")
    properties = {
        "rocketmq.client.rebalance.waitInterval": 1000,
        "rocketmq.client.localOffsetStoreDir": home / "offsets",
        "rocketmq.client.logRoot": home / "logs",
        "user.home": home,
    }
    words = [f"-D{name}={value}" for name, value in properties.items()]
    return Client(
        version(folder), ["java", *JVM, *words, "-cp", class_path, "Flows"], constants_env()
    )


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """All flows that are asked for, already run."""
    if missing():
        return {}
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = [item.callspec.params for item in items if item.function is test_flow]
    home = tmp_path_factory.mktemp("rocketmq-java")
    clients = {folder: client_of(folder, home) for folder in FOLDERS}
    return play_flows([(clients[each["folder"]], each["mode"]) for each in asked], home)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: version(folder))
def test_flow(folder: Path, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    flow.check("java", mode, outcomes[version(folder), mode])
