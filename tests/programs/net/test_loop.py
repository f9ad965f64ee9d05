"""The event loop in a process, the service manager that waits for it, the monitoring port."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.service_manager import ServiceManager
from penstock.net.tcp import ListenError
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.net.vitals.vitals import Vitals
from tests.daemon_commands import DAEMONS, command
from tests.metrics_pages import ask
from tools.harness.ports import unused_address


def test_closed_standard_streams_are_no_numbers_for_sockets() -> None:
    text = """
import asyncio, os
from penstock.net.loop import run
async def main():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    numbers = [one.fileno() for one in server.sockets]
    server.close()
    return min(numbers)
for number in range(3):
    os.close(number)
os._exit(run(main()))
"""
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=120)
    assert done.returncode > 2


def test_a_daemon_that_serves_loads_the_rest_and_keeps_the_garbage_collector_off_it() -> None:
    code = """
import asyncio, gc, sys
from penstock.core.late_import import import_late
import_late("numpy")
from penstock.net.loop import run, settle
async def main():
    settle()
    assert "numpy._core" not in sys.modules, "the first answers wait for nothing"
    while gc.get_freeze_count() == 0:
        await asyncio.sleep(0.01)
    print("numpy._core" in sys.modules, gc.get_threshold()[0])
run(main())
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert printed.stdout == "True 50000\n"


# --- A manager's socket, as systemd opens it, at daemons and at the notices themselves -----------


TIMEOUT_S = 60.0
WATCHDOG_USEC = "200000"


class Manager:
    """The receiving end: notices, one by one, in their order."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.bind(address.replace("@", "\0", 1))

    def next(self) -> str:
        return self._socket.recv(1024).decode()

    def until(self, notice: str) -> list[str]:
        """The notices before this one."""
        return list(iter(self.next, notice))

    def is_quiet(self) -> bool:
        self._socket.settimeout(0)
        try:
            return not self.next()
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_S)

    def hears_within(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            return bool(self.next())
        except TimeoutError:
            return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = f"penstock-test-{os.getpid()}"
    manager = Manager(str(tmp_path / "n") if request.param == "path" else f"@{name}")
    yield manager
    manager.close()


@pytest.fixture
def started(
    request: pytest.FixtureRequest, manager: Manager, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    notify = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": WATCHDOG_USEC}
    daemon = subprocess.Popen(
        command(request.param, tmp_path), env={**os.environ, **notify}, stderr=subprocess.PIPE
    )
    yield daemon
    daemon.kill()
    daemon.communicate()


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.parametrize("started", DAEMONS, indirect=True)
def test_every_daemon_says_that_it_is_ready_that_it_lives_and_that_it_ends(
    manager: Manager, started: subprocess.Popen[bytes]
) -> None:
    assert [manager.next() for _ in range(4)] == ["READY=1", *["WATCHDOG=1"] * 3]
    started.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, started.pid, os.WSTOPPED)
    while not manager.is_quiet():  # the socket has room for the last notices then
        pass
    started.send_signal(signal.SIGTERM)
    started.send_signal(signal.SIGCONT)
    assert set(manager.until("STOPPING=1")) <= {"WATCHDOG=1"}
    assert started.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.parametrize("started", ["nsqlookupd"], indirect=True)
def test_a_daemon_that_hangs_gives_no_sign_of_life(
    manager: Manager, started: subprocess.Popen[bytes]
) -> None:
    assert manager.until("WATCHDOG=1") == ["READY=1"]
    started.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, started.pid, os.WSTOPPED)
    while not manager.is_quiet():
        pass
    assert not manager.hears_within(3 * int(WATCHDOG_USEC) / 1e6)


@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_daemon_that_cannot_start_is_never_ready(manager: Manager, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "penstock.cli.nsqd", f"--data-path={tmp_path / 'absent'}"]
    environment = {**os.environ, "NOTIFY_SOCKET": manager.address}
    done = subprocess.run(words, env=environment, capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert manager.is_quiet()


async def test_without_a_watchdog_the_loop_has_nothing_to_do(manager: Manager) -> None:
    told = ServiceManager.of({"NOTIFY_SOCKET": manager.address})
    told.ready(asyncio.get_running_loop())
    told.stopping()
    assert [manager.next(), manager.next()] == ["READY=1", "STOPPING=1"]
    assert manager.is_quiet()


async def test_the_watchdog_of_another_process_is_not_ours(manager: Manager) -> None:
    told = ServiceManager.of(
        {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    )
    told.ready(asyncio.get_running_loop())
    assert manager.next() == "READY=1"
    assert manager.is_quiet()


async def test_children_do_not_speak_for_the_daemon(manager: Manager) -> None:
    environment = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    ServiceManager.of(environment)
    assert environment == {}


@pytest.mark.parametrize("address", ["vsock:2:1", "/no/such/socket"])
async def test_a_manager_that_cannot_be_told_costs_a_line_of_the_log(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.service"):
        ServiceManager.of({"NOTIFY_SOCKET": address}).ready(asyncio.get_running_loop())
    assert [f"NOTIFY_SOCKET={address}" in each for each in caplog.messages] == [True]


async def test_without_a_manager_nothing_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager.of({}).ready(asyncio.get_running_loop())
    assert caplog.messages == []


LOG = logging.getLogger("test")


async def test_the_pages_and_nothing_else() -> None:
    address = unused_address()
    port = await MonitoringPort.open(address, Vitals("mqnamesrv", SYSTEM_CLOCK), LOG)
    for path, status in (("/live", 200), ("/ping", 200), ("/ready", 200), ("/metrics", 200),
                         ("/stats", 404)):  # fmt: skip
        assert (await asyncio.to_thread(ask, address, path))[0] == status
    with pytest.raises(ListenError, match="address already in use"):
        await MonitoringPort.open(address, Vitals("mqnamesrv", SYSTEM_CLOCK), LOG)
    await port.close()
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(ask, address, "/ping")


async def test_a_program_that_is_not_well_lives() -> None:
    vitals = Vitals("mqbroker", SYSTEM_CLOCK, health=lambda: "NOK - no space left on device")
    port = await MonitoringPort.open("127.0.0.1:0", vitals, LOG)
    address = f"127.0.0.1:{port.port}"
    assert (await asyncio.to_thread(ask, address, "/ping"))[0] == 500
    assert await asyncio.to_thread(ask, address, "/live") == (200, "OK")
    await port.close()
