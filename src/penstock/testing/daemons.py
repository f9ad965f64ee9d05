"""Real daemons for tests: start the program, learn its ports from its log, stop or kill it.

``run_nsqd()``, ``run_nsqlookupd()``, ``run_nsqadmin()``, ``run_mqnamesrv()``, ``run_mqbroker()``,
and ``run_rocketmq()`` for the last two together, are context managers around the programs
themselves, as a user starts them, on free ports of 127.0.0.1. They are read from log lines as
``TCP: listening on …``, so that any number of daemons run side by side. Another program with the
same flags (the Go daemons, for one) takes the place of NSQ's by ``program=`` or by the environment
variables ``PENSTOCK_NSQD``, ``PENSTOCK_NSQLOOKUPD`` and ``PENSTOCK_NSQADMIN``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, NamedTuple, TypeVar

from penstock.core.settings import java_properties
from penstock.rocketmq.protocol.registration import VIP_DISTANCE


def hold(port: int = 0) -> socket.socket | None:
    """Bind a port that nobody else has bound, or any for 0, without listening: connecting is
    refused, no program is given the port, and one that is told it can listen there.

    None if somebody has it. It is held until the socket is closed.
    """
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    # Only now: before, a port that another one holds in this way would do.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


POLL_S = 0.005
START_S_MAX = 60.0
STOP_S_MAX = 60.0
LOG_TAIL_LINES = 30

# In a log of JSON a quotation mark ends the message.
_LISTENING = re.compile(
    r'\b(TCP|HTTPS?|RocketMQ): listening on ([^\s"]+:\d+)(?:"|\s*$)', re.MULTILINE
)
_ANY: Final = "127.0.0.1:0"


DaemonT = TypeVar("DaemonT", bound="Daemon")


class DaemonError(AssertionError):
    """The daemon did not start or stop in time, or ended by itself; the text ends with its log."""


class Daemon:
    """One program under test, running or not. Addresses are ``host:port`` texts.

    ``tcp`` and ``http`` stay the same over ``restart()``, as a client that reconnects expects:
    their ports are taken from the first start on, so that no other program is given them meanwhile.
    """

    _addresses: ClassVar[Sequence[str]] = ("tcp", "http")

    def __init__(
        self, program: Sequence[str], flags: Sequence[str], data_path: Path, home: Path
    ) -> None:
        self.program = list(program)
        self.flags = list(flags)
        self.data_path = data_path
        self.log_path = home / "log.txt"
        self.tcp = self.http = _ANY
        self.https: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._taken: list[int] = []  # file descriptors of bound sockets
        # The ports are given back with the object, also by tests that fail before they close it.
        weakref.finalize(self, _close_all, self._taken)

    @property
    def pid(self) -> int:
        """Process id of the running program."""
        return self._running().pid

    @property
    def tcp_port(self) -> int:
        """Port of the TCP protocol."""
        return int(self.tcp.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        """Port of the HTTP API."""
        return int(self.http.rpartition(":")[2])

    @property
    def https_port(self) -> int:
        """Port of the HTTPS API; 0 when it is not open."""
        return int(self.https.rpartition(":")[2]) if self.https else 0

    def command(self) -> list[str]:
        """The whole command line of the next start."""
        addresses = [f"--tcp-address={self.tcp}", f"--http-address={self.http}"]
        return [*self.program, *addresses, *self.flags]

    def start(self, timeout_s: float = START_S_MAX) -> None:
        """Start the program and wait until it listens. Raises DaemonError."""
        if self._process is not None:
            raise DaemonError("the daemon is already running")
        for name in self._addresses:
            if getattr(self, name) == _ANY:
                setattr(self, name, self._take_address(with_vip=name == "rocketmq"))
        position = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = self._launch(log)
        try:
            self._wait_until_listening(position, timeout_s)
        except BaseException:
            self.kill()
            raise

    def _take_address(self, *, with_vip: bool = False) -> str:
        """Hold a port until it is needed, and with it that of RocketMQ's VIP channel, which a
        broker opens below its own: by chance, it could be another daemon's.
        """
        while True:
            held = hold()
            assert held is not None, "the system has run out of ports"
            port = int(held.getsockname()[1])
            below = hold(port - VIP_DISTANCE) if with_vip else None
            self._taken += [each.detach() for each in (held, below) if each is not None]
            if below is not None or not with_vip:
                return f"127.0.0.1:{port}"

    def _launch(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait_until_listening(self, position: int, timeout_s: float) -> None:
        def listens() -> bool:
            return self._find_addresses(dict(_LISTENING.findall(self.log(position))))

        self._wait(listens, "listen", timeout_s)

    def wait_for(self, text: str, timeout_s: float = START_S_MAX) -> None:
        """Wait until the log has this text. Raises DaemonError."""
        self._wait(lambda: text in self.log(), f"log {text!r}", timeout_s)

    def _wait(self, state: Callable[[], bool], what: str, timeout_s: float) -> None:
        for _ in range(int(timeout_s / POLL_S)):
            if state():
                return
            code = self._running().poll()
            if code is not None:
                raise DaemonError(self._explain(f"ended with exit code {code}, did not {what}"))
            time.sleep(POLL_S)
        raise DaemonError(self._explain(f"did not {what} within {timeout_s:g} s"))

    def _find_addresses(self, found: dict[str, str]) -> bool:
        """Take over the addresses that the log names; whether they are all."""
        if not {"TCP", "HTTP", *self._more_ports()} <= found.keys():
            return False
        self.tcp, self.http, self.https = found["TCP"], found["HTTP"], found.get("HTTPS")
        return True

    def _more_ports(self) -> Iterator[str]:
        """HTTPS where these flags open it, which is logged after the others."""
        given = dict(flag.split("=", 1) for flag in self.flags if "=" in flag)
        if given.get("--https-address") and given.get("--tls-cert"):
            yield "HTTPS"

    def stop(self, timeout_s: float = STOP_S_MAX) -> int:
        """SIGTERM and wait; returns the exit code (0 = graceful). Raises DaemonError when stuck."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            text = self._explain(f"did not stop within {timeout_s:g} s of SIGTERM")
            self.kill()
            raise DaemonError(text) from None
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL and wait. Does nothing to a daemon which is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop if running, then start again: same ports, same data path."""
        if self._process is not None:
            self.stop()
        self.start()

    def close(self) -> None:
        """End the daemon, gracefully if it still runs. Raises DaemonError if it died by itself."""
        if self._process is None:
            return
        code = self._process.poll()
        if code is not None:
            self._process = None
            raise DaemonError(self._explain(f"ended by itself with exit code {code}"))
        self.stop()

    def log(self, position: int = 0) -> str:
        """The output of the program so far, from this byte on; empty before its first start."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(position)
            return file.read().decode(errors="replace")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise DaemonError("the daemon is not running")
        return self._process

    def _explain(self, what: str) -> str:
        tail = "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])
        return f"{shlex.join(self.command())}\n{what}; end of its log:\n{tail}"


class Nsqadmin(Daemon):
    """An nsqadmin under test; it has no TCP port."""

    _addresses = ("http",)

    def command(self) -> list[str]:
        """The whole command line of the next start."""
        return [*self.program, f"--http-address={self.http}", *self.flags]

    def _find_addresses(self, found: dict[str, str]) -> bool:
        self.http = found.get("HTTP", self.http)
        return "HTTP" in found


class RocketDaemon(Daemon):
    """An mqnamesrv or mqbroker under test; ``rocketmq`` is its address, ``properties`` its
    settings.

    A broker's NSQ ports are open, at ``tcp`` and ``http``, and the one for slaves, at ``copies``. A
    ``SYNC_MASTER`` has no ports of NSQ's.
    """

    def __init__(
        self, program: Sequence[str], properties: Mapping[str, object], data_path: Path, home: Path
    ) -> None:
        super().__init__(program, (), data_path, home)
        self.properties = dict(properties)
        self.rocketmq = _ANY
        self._config = home / "daemon.properties"

    @property
    def port(self) -> int:
        """Port of RocketMQ's protocol."""
        return int(self.rocketmq.rpartition(":")[2])

    def command(self) -> list[str]:
        """The whole command line of the next start; its properties are in a file."""
        found = {"bindAddress": "127.0.0.1", "listenPort": self.port, **self.properties}
        self._config.write_text(java_properties.dumps(found))
        return [*self.program, "-c", str(self._config)]


class MqNamesrv(RocketDaemon):
    """A name server under test."""

    _addresses = ("rocketmq",)

    def _find_addresses(self, found: dict[str, str]) -> bool:
        self.rocketmq = found.get("TCP", self.rocketmq)
        return "TCP" in found


class MqBroker(RocketDaemon):
    """A broker under test."""

    _addresses = ("tcp", "http", "rocketmq", "copies")
    copies = _ANY

    @property
    def _has_nsq(self) -> bool:
        return self.properties.get("brokerRole") != "SYNC_MASTER"

    def command(self) -> list[str]:
        self.properties.update(haListenPort=self.copies.rpartition(":")[2])
        if self._has_nsq:
            self.properties.update(nsqTcpAddress=self.tcp, nsqHttpAddress=self.http)
        return super().command()

    def _find_addresses(self, found: dict[str, str]) -> bool:
        self.rocketmq = found.get("RocketMQ", self.rocketmq)
        is_open = "RocketMQ" in found or "ERROR: fenced: " in self.log()  # which opens no such port
        return is_open and (not self._has_nsq or super()._find_addresses(found))


class RocketMQ(NamedTuple):
    """A name server under test, and the broker that is registered there."""

    name_server: MqNamesrv
    broker: MqBroker

    @property
    def address(self) -> str:
        """The address that clients are given: the name server's."""
        return self.name_server.rocketmq


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _program(given: str | Sequence[str] | None, variable: str, module: str) -> list[str]:
    """The words that start the program: the argument, else the environment, else our own."""
    if given is None:
        given = os.environ.get(variable) or [sys.executable, "-m", module]
    return [given] if isinstance(given, str) else list(given)


@contextmanager
def run_nsqd(
    *flags: str,
    data_path: Path | str | None = None,
    program: str | Sequence[str] | None = None,
) -> Iterator[Daemon]:
    """Run nsqd with these flags until the end of the block (then SIGTERM).

    ``data_path`` is kept; without it there is a temporary one, removed at the end. A flag given
    here wins over those set by default (addresses, data path, broadcast address 127.0.0.1).
    """
    words = _program(program, "PENSTOCK_NSQD", "penstock.cli.nsqd")
    home = Path(tempfile.mkdtemp(prefix="penstock-nsqd-"))
    data = Path(data_path) if data_path is not None else home / "data"
    data.mkdir(parents=True, exist_ok=True)
    all_flags = [f"--data-path={data}", "--broadcast-address=127.0.0.1", *flags]
    with _running(Daemon(words, all_flags, data, home), home) as daemon:
        yield daemon


@contextmanager
def run_nsqlookupd(*flags: str, program: str | Sequence[str] | None = None) -> Iterator[Daemon]:
    """Run nsqlookupd with these flags until the end of the block (then SIGTERM)."""
    words = _program(program, "PENSTOCK_NSQLOOKUPD", "penstock.cli.nsqlookupd")
    home = Path(tempfile.mkdtemp(prefix="penstock-nsqlookupd-"))
    all_flags = ["--broadcast-address=127.0.0.1", *flags]
    with _running(Daemon(words, all_flags, home, home), home) as daemon:
        yield daemon


@contextmanager
def run_nsqadmin(*flags: str, program: str | Sequence[str] | None = None) -> Iterator[Nsqadmin]:
    """Run nsqadmin with these flags, which name its nodes, until the end of the block."""
    words = _program(program, "PENSTOCK_NSQADMIN", "penstock.cli.nsqadmin")
    home = Path(tempfile.mkdtemp(prefix="penstock-nsqadmin-"))
    with _running(Nsqadmin(words, flags, home, home), home) as daemon:
        yield daemon


@contextmanager
def run_mqnamesrv(**properties: object) -> Iterator[MqNamesrv]:
    """Run mqnamesrv with these properties until the end of the block (then SIGTERM)."""
    words = _program(None, "PENSTOCK_MQNAMESRV", "penstock.cli.mqnamesrv")
    home = Path(tempfile.mkdtemp(prefix="penstock-mqnamesrv-"))
    properties = {"kvConfigPath": home / "kvConfig.json", **properties}
    with _running(MqNamesrv(words, properties, home, home), home) as daemon:
        yield daemon


@contextmanager
def run_mqbroker(
    *, name_server: str = "", data_path: Path | str | None = None, **properties: object
) -> Iterator[MqBroker]:
    """Run mqbroker with these properties until the end of the block (then SIGTERM).

    ``data_path`` is kept; without it there is a temporary one, removed at the end.
    """
    words = _program(None, "PENSTOCK_MQBROKER", "penstock.cli.mqbroker")
    home = Path(tempfile.mkdtemp(prefix="penstock-mqbroker-"))
    data = Path(data_path) if data_path is not None else home / "store"
    properties = {
        "brokerName": "broker-a",
        "brokerIP1": "127.0.0.1",
        "namesrvAddr": name_server,
        "storePathRootDir": data,
        **properties,
    }
    with _running(MqBroker(words, properties, data, home), home) as daemon:
        yield daemon


@contextmanager
def run_rocketmq(**properties: object) -> Iterator[RocketMQ]:
    """Run a name server, and a broker with these properties, until the end of the block.

    At its beginning the name server knows the broker. TLS is for both.
    """
    tls = {name: value for name, value in properties.items() if name.startswith("tls.")}
    with (
        run_mqnamesrv(**tls) as name_server,
        run_mqbroker(name_server=name_server.rocketmq, **properties) as broker,  # type: ignore[arg-type]
    ):
        broker.wait_for(f"name server {name_server.rocketmq}: registered")
        yield RocketMQ(name_server, broker)


@contextmanager
def _running(daemon: DaemonT, home: Path) -> Iterator[DaemonT]:
    try:
        daemon.start()
        yield daemon
    except BaseException:
        daemon.kill()  # the first failure is the one to report
        raise
    else:
        daemon.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
