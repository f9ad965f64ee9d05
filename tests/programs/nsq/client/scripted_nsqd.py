"""A node that plays a script, as the one of go-nsq's tests does (NSQ spec 8.6).

It answers IDENTIFY and SUB, then sends one message after the other, each a little after the last
was finished or requeued, while its own count of RDY is above 0; and writes down every command line.
When as many commands have come as the script has lines, it waits a little for one too many and
hangs up. The next connection is played the next script.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from penstock.nsq.protocol import frames

GAP_S = 0.01
QUIET_S = 0.1
PATIENCE_S = 30.0


class Script(NamedTuple):
    """The bodies of a session's messages, and the commands that are expected in it."""

    bodies: Sequence[bytes]
    lines: Sequence[str]


class ScriptedNsqd:
    """A scripted node; ``sessions`` has the commands of each connection."""

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
