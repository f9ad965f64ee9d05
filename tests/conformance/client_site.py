"""Real nsqds and nsqlookupds for the client's tests, and what they say of a consumer.

They are ours, and Go's as well where ``PENSTOCK_GO_NSQ`` names the folder of its programs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.net.http.client.once import get
from penstock.nsq.client import Config, Consumer, Message, Producer
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tools.harness.processes import stop

GO = os.environ.get("PENSTOCK_GO_NSQ")
MAKES = [None, GO] if GO else [None]
CHANNEL = "c"
QUICK = Config(lookupd_poll_interval=0.1, rdy_redistribute_interval=0.05, low_rdy_idle_timeout=1)


class Site:
    """Daemons of one make. ``nsqds`` are there for all tests, each with a topic of its own."""

    def __init__(self, folder: str | None, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._shared: list[Daemon] = []

    def _program(self, name: str) -> str | None:
        return str(Path(self._folder) / name) if self._folder else None

    async def nsqd(self, *flags: str) -> Daemon:
        running = run_nsqd("--broadcast-address=127.0.0.1", *flags, program=self._program("nsqd"))
        return await asyncio.to_thread(self._stack.enter_context, running)

    async def nsqds(self, count: int) -> list[Daemon]:
        missing = range(count - len(self._shared))
        self._shared += await asyncio.gather(*(self.nsqd() for _ in missing))
        return self._shared[:count]

    async def nsqlookupd(self) -> Daemon:
        running = run_nsqlookupd(program=self._program("nsqlookupd"))
        return await asyncio.to_thread(self._stack.enter_context, running)


@asynccontextmanager
async def consuming(
    topic: str, handler: Callable[[Message], object], **options: Any
) -> AsyncIterator[Consumer]:
    """A consumer at work in the background."""
    consumer = Consumer(topic, CHANNEL, **options)
    task = asyncio.ensure_future(consumer.run(handler))
    try:
        yield consumer
    finally:
        await consumer.close()
        await task


def tcp(nsqds: list[Daemon]) -> list[str]:
    return [nsqd.tcp for nsqd in nsqds]


async def publish(topic: str, nsqd: Daemon, *bodies: bytes) -> None:
    async with Producer(nsqd.tcp) as producer:
        await producer.multi_publish(topic, bodies)


async def channel(topic: str, nsqd: Daemon) -> dict[str, Any]:
    """What /stats says of the channel; nothing while there is none."""
    answer = await get(f"http://{nsqd.http}/stats?format=json&topic={topic}&channel={CHANNEL}", 30)
    for found in json.loads(answer.body)["topics"] or []:
        for one in found["channels"] or []:
            return dict(one)
    return {}


async def counts(topic: str, nsqd: Daemon) -> tuple[int, int, int]:
    """How many messages wait, how many are in flight, how many consumers there are."""
    found = await channel(topic, nsqd)
    return found["depth"], found["in_flight_count"], found["client_count"]


async def readies(topic: str, nsqds: list[Daemon]) -> list[int]:
    """The RDY of the consumer at each node, -1 where it is not, as two looks agree on."""
    before: list[int] = []
    while True:
        found = []
        for stats in await asyncio.gather(*(channel(topic, nsqd) for nsqd in nsqds)):
            clients = stats.get("clients") or [{"ready_count": -1}]
            found.append(sum(client["ready_count"] for client in clients))
        if found == before:
            return found
        before = found


async def until(condition: Callable[[], Awaitable[object] | object], seconds: float = 60) -> None:
    """Wait for it; other processes have to be asked again and again."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.01)


async def are(topic: str, nsqds: list[Daemon], wanted: list[int]) -> bool:
    return await readies(topic, nsqds) == wanted


async def is_sum(topic: str, nsqds: list[Daemon], wanted: int) -> bool:
    return sum(await readies(topic, nsqds)) == wanted


async def is_empty(topic: str, nsqd: Daemon) -> bool:
    """Whether all messages are finished."""
    return (await counts(topic, nsqd))[:2] == (0, 0)


class Tap:
    """Between a client and a node: lets everything pass, and keeps what the client says."""

    def __init__(self, node: str) -> None:
        self.address = ""
        self._node = node
        self._said: list[bytearray] = []
        self._passing: set[asyncio.Task[None]] = set()

    @property
    def sessions(self) -> list[list[bytes]]:
        """The command lines of each connection."""
        return [command_lines(bytes(said)) for said in self._said]

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        said = bytearray()
        self._said.append(said)
        host, _, port = self._node.rpartition(":")
        try:
            node_reader, node_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(
                _pump(reader, node_writer, said), _pump(node_reader, writer, bytearray())
            )
        finally:
            writer.close()

    async def close(self) -> None:
        """Nothing passes any more."""
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray
) -> None:
    try:
        with suppress(OSError):
            while data := await reader.read(65536):
                kept += data
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def tapped(nsqd: Daemon) -> AsyncIterator[Tap]:
    """A tap in front of a node."""
    tap = Tap(nsqd.tcp)
    server = await asyncio.start_server(tap.pass_on, "127.0.0.1", 0)
    tap.address = "{}:{}".format(*server.sockets[0].getsockname())
    try:
        yield tap
    finally:
        server.close()
        await tap.close()


def command_lines(said: bytes) -> list[bytes]:
    """What a client without layers has said: each command without its body."""
    assert said[:4] in (b"  V2", b"")
    found, rest = [], said[4:]
    while b"\n" in rest:
        line, _, rest = rest.partition(b"\n")
        found.append(line)
        if line.split()[0] in (b"IDENTIFY", b"AUTH", b"PUB", b"MPUB", b"DPUB"):
            rest = rest[4 + int.from_bytes(rest[:4], "big") :]
    return found


@asynccontextmanager
async def stopped(daemon: Daemon) -> AsyncIterator[None]:
    """It hangs: its ports are open, and nobody is there."""
    pid = daemon.pid
    await asyncio.to_thread(stop, pid)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it was killed meanwhile
            os.kill(pid, signal.SIGCONT)
