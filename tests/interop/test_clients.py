"""Third-party NSQ clients work with nsqd unchanged.

The Python clients are those of the extra `interop`; nsqjs is installed by npm into the virtual
environment when the tests first run.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.conformance import raw_http

from . import flow

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
NSQJS = "nsqjs@0.13.0"
NODE_HOME = Path(sys.prefix) / "share" / "penstock-interop" / NSQJS
MODES = ("all", "restart", "lookup")


@pytest.fixture
def lookupd() -> Iterator[Daemon]:
    with run_nsqlookupd() as daemon:
        yield daemon


@pytest.fixture
def nsqd(lookupd: Daemon) -> Iterator[Daemon]:
    with run_nsqd("--msg-timeout=1s", f"--lookupd-tcp-address={lookupd.tcp}") as daemon:
        yield daemon


async def finish(command: list[str], env: dict[str, str]) -> str:
    """Run a command to its end; returns its output. Fails with it when the command fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def command_of(client: str) -> tuple[list[str], dict[str, str]]:
    """How to start a client, and its environment; installs nsqjs at the first time."""
    if client != "nsqjs":
        pytest.importorskip({"pynsq": "nsq"}.get(client, client), exc_type=ImportError)
        return [sys.executable, str(HERE / f"run_{client}.py")], {}
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("nsqjs needs node and npm, which are not on PATH")
    if not (NODE_HOME / "node_modules" / "nsqjs").exists():
        options = ["--no-audit", "--no-fund", "--prefix", str(NODE_HOME)]
        await finish([npm, "install", *options, NSQJS], {})
    constants = {name: getattr(flow, name) for name in dir(flow) if name.isupper()}
    text = json.dumps(constants, default=sorted)
    env = {"NODE_PATH": str(NODE_HOME / "node_modules"), "FLOW": text}
    return [node, str(HERE / "run_nsqjs.js")], env


async def play(client: str, mode: str, nsqd: Daemon, lookupd: Daemon) -> dict[str, int]:
    """Run one flow in a process; returns what it finished."""
    command, env = await command_of(client)
    process = await asyncio.create_subprocess_exec(
        *command,
        mode,
        nsqd.tcp,
        lookupd.http,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    errors = asyncio.create_task(process.stderr.read())  # type: ignore[union-attr]
    last = b""
    try:
        async with asyncio.timeout(flow.FLOW_S_MAX):
            while line := await process.stdout.readline():  # type: ignore[union-attr]
                last = line
                if line == b"RESTART\n":
                    await asyncio.to_thread(nsqd.restart)
                    process.stdin.write(b"RESTARTED\n")  # type: ignore[union-attr]
    except TimeoutError:
        process.kill()
        pytest.fail(f"{client} {mode}: not done in time\n{(await errors).decode()[-3000:]}")
    finally:
        await process.wait()
    text = (await errors).decode()[-3000:]
    assert process.returncode == 0, text
    result: dict[str, int] = json.loads(last)
    return result


async def channel_stats(nsqd: Daemon) -> dict[str, Any]:
    path = f"/stats?format=json&topic={flow.TOPIC}"
    answer = await raw_http.call(nsqd.http_port, "GET", path)
    channel: dict[str, Any] = json.loads(answer.body)["topics"][0]["channels"][0]
    return channel


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", ["pynsq", "gnsq", "ansq", "nsqjs"])
async def test_flow(client: str, mode: str, nsqd: Daemon, lookupd: Daemon) -> None:
    assert await play(client, mode, nsqd, lookupd) == flow.EXPECTED[mode]
    channel = await channel_stats(nsqd)
    left = {name: channel[name] for name in ("depth", "in_flight_count", "deferred_count")}
    assert left == {"depth": 0, "in_flight_count": 0, "deferred_count": 0}
    assert channel["timeout_count"] == 0
    assert channel["requeue_count"] == (1 if mode == "all" else 0)
