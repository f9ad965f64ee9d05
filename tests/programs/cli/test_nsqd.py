"""The program as a user starts it, and how it refuses to start."""

from __future__ import annotations

import platform
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.net.http.client.once import get
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.forking import completed
from tools.harness.processes import children_cpu_s
from tools.harness.streams import nsq_frame

PROGRAM = [sys.executable, "-m", "penstock.cli.nsqd"]
ANYWHERE = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *flags], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def running() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


def refusal(*flags: str) -> tuple[int, str]:
    """Exit code and last line of a start that fails without a traceback."""
    ended = completed("nsqd", *ANYWHERE, *flags)
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.splitlines()[-1]


def fatal(*flags: str) -> str:
    """The text of a FATAL line, with which the program must end."""
    code, line = refusal(*flags)
    found = re.fullmatch(r"\[nsqd\] [\d/]+ [\d:.]+ FATAL: (.*)", line)
    assert code == 1, line
    assert found, line
    return found[1]


# --- start


async def test_ping_soon_after_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    begun, before = time.monotonic(), children_cpu_s()
    with run_nsqd() as daemon:
        answer = await get(f"http://{daemon.http}/ping", 30)
        elapsed = time.monotonic() - begun
    used = children_cpu_s() - before
    with capsys.disabled():
        print(f" /ping after {elapsed:.2f} s, {used:.2f} s of the processor", end="")
    assert (answer.status, answer.body) == (200, b"OK")
    assert elapsed < 50  # 0.4 s on an idle machine
    assert used < 3  # 0.4 s, the end included


def test_the_log_of_a_life(tmp_path: Path) -> None:
    with run_nsqd(data_path=tmp_path) as daemon:
        assert daemon.stop() == 0
        lines = daemon.log().splitlines()
    texts = [re.sub(r"^\[nsqd\] [\d/]+ [\d:.]+ ", "", line) for line in lines]
    assert texts[0] == f"INFO: nsqd v1.3.0 (built w/python{platform.python_version()})"
    assert texts[1] == f"INFO: Penstock {__version__}"
    persisting = f"INFO: NSQ: persisting topic/channel metadata to {tmp_path}/nsqd.dat"
    assert texts.index(persisting) < texts.index(f"INFO: TCP: listening on {daemon.tcp}")
    assert f"INFO: HTTP: listening on {daemon.http}" in texts
    assert texts[-1] == "INFO: NSQ: bye"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_it_runs_on_either_loop(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOOP", loop)
    with run_nsqd() as daemon, socket.create_connection(("127.0.0.1", daemon.tcp_port), 30) as peer:
        peer.sendall(b"  V2PUB t\n" + struct.pack(">i", 1) + b"x")
        assert nsq_frame(peer) == (0, b"OK")


def test_it_takes_all_the_files_that_it_may() -> None:
    few = ["sh", "-c", 'ulimit -Sn 40; exec "$0" "$@"', *PROGRAM]
    with run_nsqd(program=few) as daemon:
        peers = [socket.create_connection(("127.0.0.1", daemon.tcp_port), 30) for _ in range(20)]
        for number, peer in enumerate(peers):
            peer.sendall(b"  V2PUB t%d\n" % number + struct.pack(">i", 1) + b"x")
        for peer in peers:
            assert nsq_frame(peer) == (0, b"OK")
            peer.close()


# --- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_and_silent_connections_do_not_hold_it_up(number: int, tmp_path: Path) -> None:
    program = [*PROGRAM, *ANYWHERE, f"--data-path={tmp_path}"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        ports: list[int] = []
        while len(ports) < 2:
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)$", process.stderr.readline())
            ports += [int(found[1])] if found else []
        peers = [socket.create_connection(("127.0.0.1", port), 30) for port in (*ports, ports[0])]
        peers[0].sendall(b"  V2SUB t c\nRDY 5\n")
        assert nsq_frame(peers[0]) == (0, b"OK")
        process.send_signal(number)
        process.send_signal(number)
        assert process.wait(29) == 0  # by force it would be 30 s, by silence longer
        for peer in peers:
            peer.close()


def test_a_unix_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "nsqd.sock"
    program = [*PROGRAM, f"--tcp-address={path}", "--http-address=127.0.0.1:0"]
    program.append(f"--data-path={tmp_path}")
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "HTTP: listening" not in process.stderr.readline():
            pass
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            peer.sendall(b"  V2SUB t c\n")
            assert nsq_frame(peer) == (0, b"OK")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not path.exists()


# --- bad starts


@pytest.mark.parametrize("flag", ["--tcp-address", "--http-address", "--rocketmq-address"])
def test_a_taken_port_is_said_without_lines_about_anything_else(
    running: Daemon, tmp_path: Path, flag: str
) -> None:
    ended = run(*ANYWHERE, f"{flag}={running.tcp}", f"--data-path={tmp_path}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert " FATAL: " in ended.stderr.splitlines()[-1]
    said = [line.split(": ", 1)[1] for line in ended.stderr.splitlines()]
    assert [line.split(" ")[0] for line in said[:2]] == ["nsqd", "Penstock"]
    assert said[2].startswith("ID: ")
    assert said[3:] == [
        f"failed to instantiate nsqd - listen ({running.tcp}) failed - listen tcp {running.tcp}: "
        "bind: address already in use"
    ]
    assert not (tmp_path / "nsqd.dat").exists()


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "127.0.0.1:x"])
def test_a_wrong_address(tmp_path: Path, address: str) -> None:
    text = fatal(f"--tcp-address={address}", f"--data-path={tmp_path}")
    assert text.startswith(f"failed to instantiate nsqd - listen ({address}) failed - ")


def test_a_missing_data_path(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    assert fatal(f"--data-path={path}") == (
        f"failed to instantiate nsqd - failed to lock data-path: open {path}: "
        "no such file or directory"
    )
    assert not path.exists()


def test_a_data_path_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    text = fatal(f"--data-path={path}")
    assert text.startswith(f"failed to instantiate nsqd - failed to lock data-path: open {path}: ")


def test_a_locked_data_path(running: Daemon) -> None:
    assert fatal(f"--data-path={running.data_path}") == (
        f"failed to instantiate nsqd - failed to lock data-path: cannot flock directory "
        f"{running.data_path} - resource temporarily unavailable "
        "(possibly in use by another instance of nsqd)"
    )


def test_an_unwritable_data_path() -> None:
    text = fatal("--data-path=/proc")  # nobody, root included, makes files there
    assert text.startswith("failed to persist metadata - /proc/nsqd.dat")


def test_a_full_disk(tmp_path: Path) -> None:
    """No byte can be written; the program says so."""

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    program = [*PROGRAM, *ANYWHERE, f"--data-path={tmp_path}"]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, preexec_fn=no_room)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert f"FATAL: failed to persist metadata - {tmp_path}/nsqd.dat" in last
    assert last.endswith("File too large")


@pytest.mark.parametrize("content", ["", "{", '{"topics":[{"name":5}]}'])
def test_a_corrupt_nsqd_dat(tmp_path: Path, content: str) -> None:
    path = tmp_path / "nsqd.dat"
    path.write_text(content)
    text = fatal(f"--data-path={tmp_path}")
    assert text.startswith(f"failed to load metadata - failed to parse metadata in {path} - ")
    assert path.read_text() == content
