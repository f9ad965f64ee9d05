"""Both consumers, command by command, against the scripts of go-nsq's tests (NSQ spec 8.6)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pytest

from penstock.nsq.client import aio, blocking
from penstock.nsq.client.config import Config
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import frames

GAP_S = 0.01
QUIET_S = 0.1
PATIENCE_S = 30.0


class Script(NamedTuple):
    """The bodies of a session's messages, and the commands that are expected in it."""

    bodies: Sequence[bytes]
    lines: Sequence[str]


class ScriptedNsqd:
    """A node that plays scripts; ``sessions`` has the commands of each connection.

    It answers IDENTIFY and SUB, then sends one message after the other, each a little after the
    last was finished or requeued, while its own count of RDY is above 0. When as many commands have
    come as the script has lines, it waits a little for one too many and hangs up. The next
    connection is played the next script.
    """

    def __init__(self, scripts: Sequence[Script]) -> None:
        self.sessions: list[list[str]] = []
        self._scripts = scripts
        self._ready = 0
        self._answered = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def lines(self) -> list[str]:
        """The commands of this session."""
        return self.sessions[-1] if self.sessions else []

    def until_heard(self, count: int) -> None:
        """Wait for this number of commands in this session."""
        self._until(lambda: len(self.lines) >= count, self.thread)

    def _run(self) -> None:
        with self._listener:
            for script in self._scripts:
                self._ready = self._answered = 0
                self.sessions.append([])
                with contextlib.suppress(OSError), self._listener.accept()[0] as peer:
                    self._play(peer, script)
                    peer.shutdown(socket.SHUT_RDWR)

    def _play(self, peer: socket.socket, script: Script) -> None:
        reader = peer.makefile("rb")
        assert reader.read(4) == b"  V2"
        self._expect(reader.readline(), "IDENTIFY")
        reader.read(int.from_bytes(reader.read(4), "big"))
        peer.sendall(frames.OK_FRAME)
        self._expect(reader.readline(), "SUB t ch")
        peer.sendall(frames.OK_FRAME)
        listening = threading.Thread(target=self._listen, args=(reader,), daemon=True)
        listening.start()
        for number, body in enumerate(script.bodies):
            if not self._until(partial(self._has_answered, number), listening):
                return
            time.sleep(GAP_S)
            if not self._until(lambda: self._ready > 0, listening):
                return
            self._ready -= 1
            peer.sendall(frames.message(0, 0, b"%016d" % number, body))
        self._until(lambda: len(self.lines) >= len(script.lines), listening)
        time.sleep(QUIET_S)

    def _has_answered(self, count: int) -> bool:
        return self._answered == count

    @staticmethod
    def _until(look: Callable[[], bool], working: threading.Thread) -> bool:
        """Wait for an action of the client; False if it does not come, or this thread has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while not look():
            time.sleep(0.001)
            if not working.is_alive() or time.monotonic() > deadline:
                return False
        return True

    def _listen(self, reader: socket.SocketIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := reader.readline().rstrip(b"\n"):
                name, _, rest = line.partition(b" ")
                if name == b"RDY":
                    self._ready = int(rest)
                    self.lines.append(line.decode())
                    continue
                self._answered += name in (b"FIN", b"REQ")
                delay = b" " + rest.split()[1] if name == b"REQ" else b""
                self.lines.append((name + delay).decode())

    def _expect(self, line: bytes, wanted: str) -> None:
        assert line.decode().rstrip("\n") == wanted
        self.lines.append(wanted.partition(" ")[0])


@contextlib.contextmanager
def scripted_nsqd(*scripts: Script) -> Iterator[ScriptedNsqd]:
    """Run a scripted node; at the end of the block, it must have seen all commands expected."""
    node = ScriptedNsqd(scripts)
    yield node
    node.thread.join(2 * PATIENCE_S)
    assert not node.thread.is_alive(), node.sessions
    assert node.sessions == [list(script.lines) for script in scripts]


Changes = Sequence[tuple[int, int]]
"""Pairs of a number of commands that the node has got, and the ``max_in_flight`` to set then."""
QUICK = Config(max_in_flight=5, backoff_multiplier=0.01)


class BadMessage(Exception):
    """What the handler raises."""


def handle(message: Message) -> None:
    if message.body == b"requeue":
        message.requeue()
    elif message.body == b"again":
        message.requeue(backoff=False)
    elif message.body == b"bad":
        raise BadMessage(message.body)


def play_aio(config: Config, node: ScriptedNsqd, changes: Changes = ()) -> None:
    async def play() -> None:
        addresses = [node.address]
        async with aio.Consumer("t", "ch", nsqd_tcp_addresses=addresses, config=config) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            for heard, count in changes:
                await asyncio.to_thread(node.until_heard, heard)
                consumer.max_in_flight = count
            await asyncio.to_thread(node.thread.join, 2 * PATIENCE_S)
            await consumer.close(0)
            await running

    asyncio.run(play())


def play_blocking(config: Config, node: ScriptedNsqd, changes: Changes = ()) -> None:
    left = list(changes)
    addresses = [node.address]
    with blocking.Consumer("t", "ch", nsqd_tcp_addresses=addresses, config=config) as consumer:
        while node.thread.is_alive():
            if left and len(node.lines) >= left[0][0]:
                consumer.max_in_flight = left.pop(0)[1]
            message = consumer.get(0.02)
            if message is not None:
                consumer._handle(handle, message)  # what ``run`` does with each


ONE = Config(max_in_flight=1, backoff_multiplier=0.01)
DISCONNECTED = Config(max_in_flight=5, backoff_multiplier=0.01, lookupd_poll_interval=0.01,
                      rdy_redistribute_interval=0.01)  # fmt: skip


@pytest.mark.parametrize("play", [play_aio, play_blocking], ids=["aio", "blocking"])
@pytest.mark.parametrize(
    ("config", "scripts", "changes"),
    [
        pytest.param(QUICK, [Script([b"good"] * 3 + [b"bad"] * 2 + [b"good"] * 2, [
            "IDENTIFY", "SUB", "RDY 5", "FIN", "FIN", "FIN", "RDY 0", "REQ 0", "RDY 1", "RDY 0",
            "REQ 0", "RDY 1", "RDY 0", "FIN", "RDY 1", "RDY 5", "FIN",
        ])], (), id="consumer_backoff"),
        pytest.param(ONE, [Script([b"requeue", b"again", b"good"], [
            "IDENTIFY", "SUB", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0", "RDY 1",
            "FIN",
        ])], (), id="requeue_no_backoff"),
        pytest.param(DISCONNECTED, [
            Script([b"good", b"requeue", b"requeue", b"good"], [
                "IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0",
                "RDY 1", "RDY 0", "FIN", "RDY 1",
            ]),
            Script([b"good", b"good"], ["IDENTIFY", "SUB", "RDY 1", "RDY 5", "FIN", "FIN"]),
        ], (), id="backoff_disconnect"),
        pytest.param(QUICK, [
            Script([b"good"], ["IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "RDY 5"]),
        ], [(4, 0), (5, 5)], id="pause"),
    ],
)  # fmt: skip
def test_sequences(
    play: Callable[..., None], config: Config, scripts: list[Script], changes: Changes
) -> None:
    with scripted_nsqd(*scripts) as node:
        play(config, node, changes)
