"""Networks of a few nodes that can be cut: relays of this process, or namespaces of the kernel.

A cut is silent, as that of a cable is: nothing is refused or closed, and what was on its way comes
when the wire is mended, if anybody still waits for it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from penstock.testing.daemons import Daemon
from tools.harness.forking import Circumstance

from .mounts import need, run

_PRIVATE: Final = "PENSTOCK_PRIVATE_NETWORK"
_NETNS: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000


class Door(NamedTuple):
    """The addresses of a node: two for its clients, and its HTTP for the other nodes."""

    tcp: str
    http: str
    peer: str


class Network(Protocol):
    """The wires of nodes, numbered from 0."""

    doors: list[Door]

    def host(self, number: int) -> str:
        """The host by which a node tells its addresses."""

    def flags(self, number: int) -> list[str]:
        """The flags of nsqd for them."""

    def circumstances(self, number: int) -> Sequence[Circumstance]: ...

    async def open(self, nodes: Sequence[Daemon]) -> None:
        """Give the nodes, which are not started yet, their doors."""

    async def cut(self, number: int) -> None:
        """Cut a node from its clients and from the other nodes."""

    async def part(self) -> None:
        """Cut the nodes from each other."""

    async def mend(self) -> None:
        """Mend all wires."""

    async def close(self) -> None: ...


class Relay:
    """Another address of a server, which passes on what comes while it is not cut."""

    def __init__(self, target: Callable[[], str]) -> None:
        self._target = target
        self.is_open = asyncio.Event()
        self.is_open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.address = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.is_open.wait()
            host, _, port = self._target().rpartition(":")
            there = await asyncio.open_connection(host, int(port))
            try:
                await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))
            finally:
                there[1].close()
        except OSError:
            pass
        finally:
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.is_open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Relays:
    """Relays in front of each node, for its clients and for the other nodes."""

    def __init__(self) -> None:
        self.doors: list[Door] = []
        self._of_clients: list[list[Relay]] = []
        self._of_peers: list[Relay] = []

    async def open(self, nodes: Sequence[Daemon]) -> None:
        for node in nodes:
            tcp = Relay(lambda node=node: node.tcp)
            http, peer = (Relay(lambda node=node: node.http) for _ in range(2))
            for each in (tcp, http, peer):
                await each.open()
            self._of_clients.append([tcp, http])
            self._of_peers.append(peer)
            self.doors.append(Door(tcp.address, http.address, peer.address))

    def host(self, number: int) -> str:
        return "127.0.0.1"

    def flags(self, number: int) -> list[str]:
        port = self.doors[number].peer.rpartition(":")[2]
        return ["--broadcast-address=127.0.0.1", f"--broadcast-http-port={port}"]

    def circumstances(self, number: int) -> Sequence[Circumstance]:
        return ()

    async def cut(self, number: int) -> None:
        for each in self._of_clients[number]:
            each.is_open.clear()
        await self.part()

    async def part(self) -> None:
        for each in self._of_peers:
            each.is_open.clear()

    async def mend(self) -> None:
        for each in self._relays():
            each.is_open.set()

    def _relays(self) -> list[Relay]:
        return [*self._of_peers, *(each for relays in self._of_clients for each in relays)]

    async def close(self) -> None:
        for each in self._relays():
            await each.close()


def enter_private_network() -> None:
    """Run this program again in a private network and mount namespace. Needs root, `unshare` and
    `ip`.
    """
    if os.environ.get(_PRIVATE):
        return
    if os.geteuid() != 0:
        sys.exit("this campaign cuts network namespaces: run it as root, or with --relays")
    need("unshare", "util-linux")
    need("ip", "iproute2")
    os.environ[_PRIVATE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", *sys.orig_argv])


@dataclass(frozen=True)
class Entering:
    """A network namespace that a node runs in."""

    path: str

    def __call__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(self.path, os.O_RDONLY)
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {self.path}")
        os.close(descriptor)


class Namespaces:
    """A namespace for each node, on a bridge to which the clients belong.

    A node whose port is taken off the bridge has its carrier still, and hears nothing any more.
    """

    def __init__(self) -> None:
        self.doors = [Door(f"{host}:4150", f"{host}:4151", f"{host}:4151")
                      for host in ("10.77.0.2", "10.77.0.3", "10.77.0.4")]  # fmt: skip
        self._numbers = range(0)

    async def open(self, nodes: Sequence[Daemon]) -> None:
        _NETNS.mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", _NETNS)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "address", "add", "10.77.0.1/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        self._numbers = range(len(nodes))
        for number, node in enumerate(nodes):
            name, port = f"node{number}", f"port{number}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", port, "master", "bridge", "up")
            host = self.host(number)
            run("ip", "-n", name, "address", "add", f"{host}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            node.tcp, node.http = self.doors[number].tcp, self.doors[number].http

    def host(self, number: int) -> str:
        return self.doors[number].tcp.rpartition(":")[0]

    def flags(self, number: int) -> list[str]:
        return [f"--broadcast-address={self.host(number)}"]

    def circumstances(self, number: int) -> Sequence[Circumstance]:
        return (Entering(str(_NETNS / f"node{number}")),)

    async def cut(self, number: int) -> None:
        run("ip", "link", "set", f"port{number}", "nomaster")

    async def part(self) -> None:
        for number in self._numbers:
            run("bridge", "link", "set", "dev", f"port{number}", "isolated", "on")

    async def mend(self) -> None:
        for number in self._numbers:
            run("ip", "link", "set", f"port{number}", "master", "bridge")
            run("bridge", "link", "set", "dev", f"port{number}", "isolated", "off")

    async def close(self) -> None:
        run("ip", "link", "delete", "bridge")
        for number in self._numbers:
            run("ip", "netns", "delete", f"node{number}")
        run("umount", _NETNS)
