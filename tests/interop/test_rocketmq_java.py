"""RocketMQ's own Java client, of any version that is at hand, with our broker and name server.

`PENSTOCK_ROCKETMQ_JAVA` names one folder or more (`:` between them) with the jars of a client and
of its tools, as `mvn dependency:copy-dependencies` lays them out for the artifacts rocketmq-client
and rocketmq-tools. Without it, or without a JDK, the tests are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.harness.rocketmq.java import FOLDERS, JVM, compile_java, missing

from . import rocketmq_flow as flow
from .java_sources import java_source
from .rocketmq_play import Client, constants_env, play_flows

MODES = (
    "broker", "namesrv", "retry", "send", "batch", "orderly", "filter", "sql", "pull", "lite-pull",
    "share", "broadcast", "resume", "transaction", "request", "query", "reset", "running-info",
    "create",
)  # fmt: skip
FLOWS = [
    (client, mode)
    for client in FOLDERS
    for mode in (MODES if client.startswith("4.") else (*MODES, "pop"))
] or [("none", "all")]


def client_of(name: str, program: str, home: Path) -> Client:
    """A program with flows, with the client's timers as short as they can be."""
    names = ("Flows",) if program == "Flows" else ("Flows", program)
    class_path = compile_java(FOLDERS[name], home / f"{program}-{name}", *map(java_source, names))
    properties = {
        "rocketmq.client.rebalance.waitInterval": 1000,
        "rocketmq.client.localOffsetStoreDir": home / "offsets",
        "rocketmq.client.logRoot": home / "logs",
        "user.home": home,
    }
    words = [f"-D{key}={value}" for key, value in properties.items()]
    return Client(name, ["java", *JVM, *words, "-cp", class_path, program], constants_env())


def program_of(mode: str) -> str:
    return "PopFlow" if mode == "pop" else "Flows"


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """All flows that are asked for, already run."""
    if missing():
        return {}  # and the tests are skipped
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked: list[Any] = [item.callspec.params for item in items if item.function is test_flow]
    home = tmp_path_factory.mktemp("rocketmq-java")
    wanted = [(str(each["client"]), program_of(each["mode"]), each["mode"]) for each in asked]
    programs = {(name, program) for name, program, _ in wanted}
    clients = {key: client_of(*key, home) for key in programs}
    return play_flows([(clients[name, program], mode) for name, program, mode in wanted], home)


@pytest.mark.parametrize(("client", "mode"), FLOWS)
def test_flow(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    flow.check("java", mode, outcomes[client, mode])
