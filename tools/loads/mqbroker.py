"""An mqbroker that is killed and started again over the same store."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from tools.harness.forking import Process, start

START_S_MAX: Final = 60.0
_POLL_S: Final = 0.005
_BOOTED = re.compile(r"The broker\[.*:(\d+)\] boot success")


class Broker(Protocol):
    """The interface of a broker that a load needs."""

    @property
    def port(self) -> int: ...

    @property
    def store(self) -> Path: ...

    def kill(self) -> None: ...


class Mqbroker:
    """The program with its configuration and store below ``folder``; each start has a new port.

    Another program, Java's for one, is given by its words; it wants a port among its properties.
    """

    def __init__(self, folder: Path, program: Sequence[str] = (), **properties: object) -> None:
        self.store = folder / "store"
        self.port = 0
        self._log = folder / "log.txt"
        self._config = folder / "broker.conf"
        self._process: Process | None = None
        self._program = [*(program or (sys.executable, "-m", "penstock.cli.mqbroker"))]
        everything = {"listenPort": 0, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
                      "storePathRootDir": self.store, **properties}  # fmt: skip
        self._config.write_text("".join(f"{n}={value}\n" for n, value in everything.items()))

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [*self._program, "-c", str(self._config)]
        with self._log.open("wb") as log:
            self._process = start(command, log)
        for _ in range(int(START_S_MAX / _POLL_S)):
            if found := _BOOTED.search(self.log):
                self.port = int(found[1])
                return
            assert self._process.poll() is None, f"mqbroker ended at start:\n{self.log}"
            time.sleep(_POLL_S)
        self.kill()
        raise AssertionError(f"mqbroker did not start within {START_S_MAX:g} s:\n{self.log}")

    @property
    def log(self) -> str:
        """What it has said since its last start."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM, and wait; the exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(START_S_MAX)
        self._process = None
        return code
