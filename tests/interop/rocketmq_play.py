"""Has third-party RocketMQ clients play the flows of `rocketmq_flow`, a few at the same time.

Flows that leave the servers alone share one pair of them, with a topic each; a flow that restarts
one has its own pair.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tools.harness.rocketmq.programs import Servers, run_servers, wait_until

from . import npm
from . import rocketmq_flow as flow

HERE = Path(__file__).parent
ALI_ONS = "ali-ons@3.12.0"
TOGETHER = 4
RESTARTS = ("broker", "namesrv")
READ, WRITE = 4, 2


@dataclass(frozen=True)
class Client:
    """A client's program; the flow and the rest are appended to its command."""

    name: str
    command: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)


def constants() -> dict[str, Any]:
    """The constants of the flows, for programs that are not in Python."""
    return {name: getattr(flow, name) for name in dir(flow) if name.isupper()}


def constants_env() -> dict[str, str]:
    """The same as environment variables `FLOW_...`."""
    return {f"FLOW_{name}": str(value) for name, value in constants().items()}


def missing(client: str) -> str | None:
    """Why a client cannot be run here; None when it can."""
    if client == "cpp":
        fits = (sys.platform, platform.machine()) == ("linux", "x86_64")
        return None if fits else "the C++ client is built for Linux on x86-64 only"
    both = shutil.which("node") and shutil.which("npm")
    return None if both else "node and npm are not on PATH"


def client_of(name: str, home: Path) -> Client:
    """A client; ali-ons is installed at the first time."""
    if name == "cpp":
        command = [sys.executable, str(HERE / "run_rocketmq_cpp.py")]
        return Client(name, command, env={"HOME": str(home)})  # where it writes its logs
    env = {"NODE_PATH": str(npm.modules_of(ALI_ONS)), "FLOW": json.dumps(constants())}
    return Client(name, ["node", str(HERE / "run_ali_ons.cjs")], env)


def outcomes_of(items: list[pytest.Item], test: Any, home: Path) -> dict[tuple[str, str], Any]:
    """The outcomes of all flows for which this test is to be run, and that can be run here."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    asked: list[Any] = [item.callspec.params for item in functions if item.function is test]
    flows = [(each["client"], each["mode"]) for each in asked if not missing(each["client"])]
    clients = {name: client_of(name, home) for name in {client for client, _ in flows}}
    return play_flows([(clients[client], mode) for client, mode in flows], home)


def check(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    """Check what came of a flow; it is left out where its client cannot be run."""
    reason = missing(client)
    if reason is not None:
        pytest.skip(reason)
    flow.check(client, mode, outcomes[client, mode])


def play_flows(
    wanted: Sequence[tuple[Client, str]],
    home: Path,
    account: tuple[str, str] | None = None,
    **properties: object,
) -> dict[tuple[str, str], Any]:
    """The outcome of each flow, an exception perhaps; those that restart servers take longest and
    start first. Account and properties are those of the servers that the flows share.
    """
    with ExitStack() as stack:
        shared = stack.enter_context(run_servers(home / "shared", account, **properties))
        pool = stack.enter_context(ThreadPoolExecutor(TOGETHER))
        ordered = sorted(wanted, key=lambda each: each[1] not in RESTARTS)
        futures = {
            (client.name, mode): pool.submit(_outcome, client, mode, shared, home)
            for client, mode in ordered
        }
        return {key: future.result() for key, future in futures.items()}


def _outcome(client: Client, mode: str, shared: Servers, home: Path) -> Any:
    try:
        if mode not in RESTARTS:
            return play(client, mode, shared)
        with run_servers(home / f"{mode}-{client.name}") as servers:
            return play(client, mode, servers)
    except BaseException as error:
        return error


def play(client: Client, mode: str, servers: Servers) -> Any:
    """Run one flow in a process; returns its result. After `retry` there is one dead letter."""
    name = f"{mode}-{client.name.replace('.', '-')}"
    servers.create_topic(name, flow.QUEUES, READ if mode == "refused" else READ | WRITE)
    servers.create_group(name, flow.RETRIES)
    result = _run(client, mode, name, servers)
    if mode == "retry":
        dead = f"%DLQ%{name}"
        wait_until(lambda: servers.max_offset(dead, 0) == 1, f"one message in {dead}")
    return result


def _run(client: Client, mode: str, name: str, servers: Servers) -> Any:
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*client.command, mode, servers.address, name],
            env={**os.environ, **client.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        killer = threading.Timer(flow.FLOW_S_MAX, process.kill)
        killer.start()
        try:
            result = _follow(process, servers)
        except BaseException:
            process.kill()
            raise
        finally:
            killer.cancel()
            process.communicate()
        errors.seek(0)
        end = errors.read()[-3000:]
    assert process.returncode == 0, f"{client.name} {mode}: {process.returncode}\n{end}"
    return json.loads(result)


def _follow(process: subprocess.Popen[str], servers: Servers) -> str:
    """Restart servers as the process asks for it; returns its result, in JSON."""
    assert process.stdin is not None
    assert process.stdout is not None
    result = ""
    for line in process.stdout:
        word, _, rest = line.strip().partition(" ")
        if word == "RESULT":
            result = rest
        if word == "RESTART":
            servers.restart(rest)
            process.stdin.write("RESTARTED\n")
            process.stdin.flush()
    return result
