"""Has third-party NSQ clients play the flows of `flow`, a few at the same time.

The flows mostly wait for their clients' timers. Each has a nsqlookupd and an nsqd of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tools.harness.certificates import Certificates
from tools.replay import raw_http

from . import flow, npm

HERE = Path(__file__).parent
NSQJS = "nsqjs@0.13.0"
MODES = ("all", "restart", "lookup")
TOGETHER = 6
Flow = tuple[str, str]


def missing(client: str) -> str | None:
    """Why a client cannot be run here; None when it can."""
    if client == "nsqjs":
        both = shutil.which("node") and shutil.which("npm")
        return None if both else "nsqjs needs node and npm, which are not on PATH"
    module = {"pynsq": "nsq"}.get(client, client)
    return None if importlib.util.find_spec(module) else f"{client} is not installed"


async def command_of(client: str) -> tuple[list[str], dict[str, str]]:
    """How to start a client, and its environment; installs nsqjs at the first time."""
    if client != "nsqjs":
        return [sys.executable, str(HERE / f"run_{client}.py")], {}
    modules = await asyncio.to_thread(npm.modules_of, NSQJS)
    constants = {name: getattr(flow, name) for name in dir(flow) if name.isupper()}
    text = json.dumps(constants, default=sorted)
    env = {"NODE_PATH": str(modules), "FLOW": text}
    return ["node", str(HERE / "run_nsqjs.cjs")], env


async def play(client: str, mode: str, nsqd: Daemon, lookupd: Daemon, ca: Path) -> dict[str, int]:
    """Run one flow in a process; returns what it finished."""
    command, env = await command_of(client)
    process = await asyncio.create_subprocess_exec(
        *command,
        mode,
        nsqd.tcp,
        lookupd.http,
        env={**os.environ, **env, "FLOW_CA": str(ca)},
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
                    await settled(nsqd)  # all that was finished is
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


def left(channel: dict[str, Any]) -> dict[str, int]:
    """What a channel still has."""
    return {name: channel[name] for name in ("depth", "in_flight_count", "deferred_count")}


async def settled(nsqd: Daemon) -> dict[str, Any]:
    """The channel when nsqd has read all that its clients have sent, or after a while."""
    for _ in range(3000):
        channel = await channel_stats(nsqd)
        if not any(left(channel).values()):
            break
        await asyncio.sleep(0.02)
    return channel


async def run_flow(client: str, mode: str) -> tuple[dict[str, int], dict[str, Any]]:
    """What a flow finished, and what nsqd then says of the channel."""
    lookupd_context = run_nsqlookupd()
    lookupd = await asyncio.to_thread(lookupd_context.__enter__)
    address = f"--lookupd-tcp-address={lookupd.tcp}"
    folder = tempfile.TemporaryDirectory()
    certificates = Certificates(Path(folder.name))
    tls = [*certificates.flags(), "--https-address="]
    nsqd_context = run_nsqd(f"--msg-timeout={flow.MSG_TIMEOUT_S}s", address, *tls)
    nsqd = await asyncio.to_thread(nsqd_context.__enter__)
    try:
        finished = await play(client, mode, nsqd, lookupd, certificates.ca)
        return finished, await settled(nsqd)
    finally:
        await asyncio.to_thread(nsqd_context.__exit__, None, None, None)
        await asyncio.to_thread(lookupd_context.__exit__, None, None, None)
        folder.cleanup()


async def run_flows(wanted: list[Flow]) -> dict[Flow, Any]:
    """The outcome of each flow, an exception perhaps; those that wait longest start first."""
    limit = asyncio.Semaphore(TOGETHER)
    if any(client == "nsqjs" for client, _ in wanted):
        await command_of("nsqjs")  # installs it, once

    async def one(client: str, mode: str) -> Any:
        async with limit:
            return await run_flow(client, mode)

    slowest = ("pynsq", "restart")  # it tries to connect again after 10 s only
    ordered = sorted(wanted, key=lambda each: each != slowest)
    outcomes = await asyncio.gather(*(one(*each) for each in ordered), return_exceptions=True)
    return dict(zip(ordered, outcomes, strict=True))


def outcomes_of(items: list[pytest.Item], test: Any) -> dict[Flow, Any]:
    """The outcomes of all flows for which this test is to be run, and that can be run here."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    calls = [item.callspec.params for item in functions if item.function is test]
    flows = [(str(call["client"]), str(call["mode"])) for call in calls]
    return asyncio.run(run_flows([each for each in flows if not missing(each[0])]))


def check(client: str, mode: str, outcomes: dict[Flow, Any]) -> None:
    """Check what came of a flow; it is left out where its client cannot be run."""
    reason = missing(client)
    if reason is not None:
        pytest.skip(reason)
    outcome = outcomes[client, mode]
    if isinstance(outcome, BaseException):
        raise outcome
    finished, channel = outcome
    assert finished == flow.EXPECTED[mode]
    assert left(channel) == {"depth": 0, "in_flight_count": 0, "deferred_count": 0}
    assert channel["timeout_count"] == 0
    assert channel["requeue_count"] == (1 if mode == "all" else 0)
