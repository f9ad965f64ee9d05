"""An nsqd that speaks both dialects, killed and started again over the same data path."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from penstock.testing.daemons import Daemon
from tools.harness.forking import Circumstance, Forked

PROGRAM: Final = (sys.executable, "-m", "penstock.cli.nsqd")


class Node(Daemon):
    """The program with RocketMQ's port beside NSQ's two; all three survive a restart."""

    _addresses = ("tcp", "http", "rocketmq")
    rocketmq = "127.0.0.1:0"
    circumstances: Sequence[Circumstance] | None = None
    """The faults of a forked program; None: the program is started by its command line."""

    @property
    def port(self) -> int:
        """Port of RocketMQ's protocol."""
        return int(self.rocketmq.rpartition(":")[2])

    @property
    def store(self) -> Path:
        """The folder of RocketMQ's broker."""
        return self.data_path

    @property
    def is_running(self) -> bool:
        """True until the process has ended."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """The whole command line of the next start."""
        return [*super().command(), f"--rocketmq-address={self.rocketmq}"]

    def kill(self) -> None:
        """Send SIGKILL and wait; if the process is a tracer, the traced process goes first."""
        if self.is_running:
            with suppress(FileNotFoundError, ProcessLookupError):  # it may end by itself meanwhile
                for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
        super().kill()

    def _launch(self, log: BinaryIO) -> Any:
        if self.circumstances is None:
            return super()._launch(log)
        words = ["nsqd", *self.command()[len(self.program) :]]
        # Ctrl-C is for the campaign.
        return Forked("nsqd", words, log, circumstances=(os.setsid, *self.circumstances))

    def _find_addresses(self, found: dict[str, str]) -> bool:
        self.rocketmq = found.get("RocketMQ", self.rocketmq)
        return "RocketMQ" in found and super()._find_addresses(found)


@contextmanager
def run_node(
    *flags: str,
    data_path: Path | None = None,
    properties: Mapping[str, object] | None = None,
    circumstances: Sequence[Circumstance] | None = (),
    program: Sequence[str] = PROGRAM,
) -> Iterator[Node]:
    """Run a node with these flags of nsqd and these properties of RocketMQ's broker.

    It is killed at the end of the block; its data path goes too unless one is given.
    """
    home = Path(tempfile.mkdtemp(prefix="penstock-campaign-"))
    data = data_path or home / "data"
    data.mkdir(parents=True, exist_ok=True)
    config = home / "rocketmq.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in (properties or {}).items()))
    own = [f"--data-path={data}", "--broadcast-address=127.0.0.1", f"--rocketmq-config={config}"]
    node = Node(program, [*own, *flags], data, home)
    node.circumstances = circumstances
    try:
        node.start()
        yield node
    finally:
        node.kill()
        shutil.rmtree(home, ignore_errors=True)
