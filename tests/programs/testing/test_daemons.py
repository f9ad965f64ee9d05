"""Daemons for tests: started, killed, restarted, in a loop and without one."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.nsq.client import Producer
from penstock.testing import in_thread
from penstock.testing.daemons import (
    Daemon,
    DaemonError,
    hold,
    run_mqbroker,
    run_mqnamesrv,
    run_nsqd,
    run_nsqlookupd,
)
from tests.metrics_pages import until


def test_a_held_port_is_refused_given_to_nobody_and_can_be_listened_on() -> None:
    held = hold()
    assert held is not None
    address = held.getsockname()
    with held:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        assert hold(address[1]) is None
        with socket.create_server(address) as server:
            socket.create_connection(address).close()
            assert server.getsockname() == address
    again = hold(address[1])
    assert again is not None
    again.close()


STAND_IN = """
import signal, socket, sys, time
flags = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
if "die" in flags:
    print("FATAL: told to die", file=sys.stderr)
    sys.exit(int(flags["die"]))
# Taken when it is waited for: a handler in Python misses a signal that comes right before a sleep.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
servers = []
for name in ("tcp", "http", "https"):
    if name + "-address" in flags:
        host, port = flags[name + "-address"].split(":")
        time.sleep(0.1)  # each port is logged on its own
        servers.append(socket.create_server((host, int(port))))
        address = "%s:%d" % servers[-1].getsockname()
        print("[nsqd] INFO:", name.upper() + ": listening on", address, file=sys.stderr, flush=True)
signal.sigtimedwait({signal.SIGUSR1 if "deaf" in flags else signal.SIGTERM}, 300)
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    return [sys.executable, "-S", str(script)]


def test_ports_come_from_the_log(program: list[str]) -> None:
    secured = ("--https-address=127.0.0.1:0", "--tls-cert=any")
    with run_nsqd(*secured, program=program) as daemon:
        assert daemon.tcp == f"127.0.0.1:{daemon.tcp_port}"
        assert len({daemon.tcp_port, daemon.http_port, daemon.https_port, 0}) == 4
        assert daemon.pid > 0


def test_ports_come_from_a_log_of_json() -> None:
    with run_nsqd("--log-format=json") as daemon:
        assert daemon.http_port
        assert '"TCP: listening on ' in daemon.log()


def test_temporary_data_path_is_removed(program: list[str]) -> None:
    with run_nsqd(program=program) as daemon:
        assert daemon.data_path.is_dir()
        assert f"--data-path={daemon.data_path}" in daemon.command()
        assert daemon.https_port == 0
    assert not daemon.data_path.exists()


def test_given_data_path_is_kept(program: list[str], tmp_path: Path) -> None:
    with run_nsqd(program=program, data_path=tmp_path / "mine") as daemon:
        assert daemon.data_path == tmp_path / "mine"
    assert (tmp_path / "mine").is_dir()


def test_stop_is_graceful(program: list[str]) -> None:
    with run_nsqd(program=program) as daemon:
        assert daemon.stop() == 0
        with pytest.raises(DaemonError, match="not running"):
            daemon.stop()


def test_restart_keeps_the_ports(program: list[str]) -> None:
    with run_nsqd(program=program) as daemon:
        before = (daemon.tcp, daemon.http)
        first = daemon.pid
        daemon.restart()
        assert (daemon.tcp, daemon.http) == before
        daemon.kill()
        daemon.kill()
        daemon.restart()
        assert daemon.pid != first
        with pytest.raises(DaemonError, match="already running"):
            daemon.start()


def test_ports_are_nobody_elses_while_it_is_down(program: list[str]) -> None:
    with run_nsqd(program=program) as daemon:
        for end in (daemon.stop, daemon.kill):
            end()
            for port in (daemon.tcp_port, daemon.http_port):
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port))
                with socket.socket() as other, pytest.raises(OSError, match="already in use"):
                    other.bind(("127.0.0.1", port))
            daemon.start()
            socket.create_connection(("127.0.0.1", daemon.tcp_port)).close()


def test_failing_start_shows_the_log(program: list[str]) -> None:
    with (
        pytest.raises(DaemonError, match=r"(?s)exit code 3.*told to die"),
        run_nsqd("--die=3", program=program),
    ):
        pass


def test_silence_at_start_is_a_failure(program: list[str], tmp_path: Path) -> None:
    daemon = Daemon([sys.executable, "-c", "import time; time.sleep(30)"], [], tmp_path, tmp_path)
    with pytest.raises(DaemonError, match="did not listen"):
        daemon.start(timeout_s=0.05)


def test_a_deaf_daemon_is_killed(program: list[str]) -> None:
    with run_nsqd("--deaf=1", program=program) as daemon:
        with pytest.raises(DaemonError, match="did not stop"):
            daemon.stop(timeout_s=0.05)
        daemon.start()
        daemon.kill()


def test_a_death_during_the_block_is_reported(program: list[str]) -> None:
    context = run_nsqlookupd(program=program)
    daemon = context.__enter__()
    os.kill(daemon.pid, signal.SIGKILL)
    os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(DaemonError, match="ended by itself"):
        context.__exit__(None, None, None)


def test_the_failure_inside_the_block_wins(program: list[str]) -> None:
    with pytest.raises(KeyError), run_nsqd(program=program):
        raise KeyError


def test_environment_names_the_program(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "program.sh"
    script.write_text(f'#!/bin/sh\nexec {" ".join(program)} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_NSQLOOKUPD", str(script))
    with run_nsqlookupd() as daemon:
        assert daemon.command()[0] == str(script)


def test_the_vip_port_of_a_broker_is_nobody_elses_before_it_opens_it() -> None:
    with run_mqbroker() as broker:
        vip = f"VIP: listening on 127.0.0.1:{broker.port - 2}"
        assert until(lambda: vip in broker.log())  # a moment after the port that is waited for
        broker.kill()
        with socket.socket() as other, pytest.raises(OSError, match="already in use"):
            other.bind(("127.0.0.1", broker.port - 2))


def test_rocketmqs_programs_find_each_other() -> None:
    with (
        run_mqnamesrv() as name_server,
        run_mqbroker(name_server=name_server.rocketmq, brokerName="b") as broker,
    ):
        assert broker.port
        assert broker.tcp_port
        assert until(lambda: "boot success" in name_server.log())
        port = broker.port
        broker.restart()
        assert broker.port == port
        assert broker.stop() == 0
        assert until(lambda: "the broker b at 127.0.0.1:" in name_server.log())


# --- Context managers in threads, and a daemon among them ----------------------------------------


async def test_both_ends_run_in_threads_and_errors_pass_through() -> None:
    seen: list[object] = []

    @contextmanager
    def manager() -> Iterator[int]:
        seen.append(threading.current_thread() is threading.main_thread())
        try:
            yield 7
        except KeyError as error:
            seen.append(error.args[0])
            raise
        finally:
            seen.append(threading.current_thread() is threading.main_thread())

    async with in_thread(manager()) as value:
        assert value == 7
    assert seen == [False, False]
    with pytest.raises(KeyError, match="mine"):
        async with in_thread(manager()):
            raise KeyError("mine")
    assert seen[2:] == [False, "mine", False]


async def test_what_begins_while_its_task_is_cancelled_is_ended() -> None:
    """The thread cannot be stopped: a daemon would be left running."""
    begins, goes_on = threading.Event(), threading.Event()
    seen: list[object] = []

    @contextmanager
    def manager() -> Iterator[int]:
        begins.set()
        goes_on.wait(60)
        try:
            yield 7
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("ended")

    async def use() -> None:
        async with in_thread(manager()):
            seen.append("never")

    task = asyncio.create_task(use())
    await asyncio.to_thread(begins.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "ended"]


async def test_a_daemon() -> None:
    async with in_thread(run_nsqd()) as nsqd:
        async with Producer(nsqd.tcp) as producer:
            await producer.publish("t", b"x")
        pid = nsqd.pid
        assert pid
