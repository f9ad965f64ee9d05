"""NSQ's programs as users start them: versions, flags, logs, signals, and starts that are refused.

tests/conformance has what their command lines say in NSQ's words.
"""

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
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.net.http.client.once import get
from penstock.testing import run_nsqadmin
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.forking import completed
from tools.harness.processes import children_cpu_s
from tools.harness.streams import exactly, nsq_frame

DAEMONS = ["nsqd", "nsqlookupd", "nsqadmin"]
TOOLS = ["nsq_stat", "nsq_tail", "nsq_to_file", "nsq_to_http", "nsq_to_nsq", "to_nsq"]
HEAVY = {"asyncio", "uvloop", "numpy", "msgspec", "rich", "penstock.nsq.client"}
ANYWHERE = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]


def words_of(program: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", f"penstock.cli.{program}", *flags]


def ended(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def listening(process: subprocess.Popen[str], count: int = 2) -> list[int]:
    """The ports from the log, as other programs find them."""
    ports: list[int] = []
    assert process.stderr is not None
    while len(ports) < count:
        line = process.stderr.readline()
        assert line, "ended before it listened"
        found = re.search(r"INFO: (?:TCP|HTTP): listening on 127\.0\.0\.1:(\d+)$", line)
        ports += [int(found[1])] if found else []
    return ports


@pytest.fixture(scope="module")
def running() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


# --- every program


@pytest.mark.parametrize("program", [*DAEMONS, *TOOLS])
def test_the_version_is_quick_and_imports_little(program: str) -> None:
    before = children_cpu_s()
    python, *words = words_of(program, "--version")
    done = ended([python, "-X", "importtime", *words])
    assert children_cpu_s() - before < 1  # 0.1 s
    built = f" (built w/python{platform.python_version()})" if program in DAEMONS else ""
    assert (done.returncode, done.stdout) == (
        0,
        f"{program} v1.3.0{built} of Penstock {__version__}\n",
    )
    found = [re.match(r"import time: .*\| +(\S+)", line) for line in done.stderr.splitlines()]
    assert not HEAVY & {match[1] for match in found if match}
    assert all(found)


@pytest.mark.parametrize("program", [*DAEMONS, *TOOLS])
def test_a_wrong_flag_is_one_line_and_the_usage(program: str) -> None:
    done = ended(words_of(program, "--nosuch"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flag provided but not defined: -nosuch\nUsage of ")
    if program == "nsqlookupd":
        shown = ended(words_of(program, "--help"))
        assert (shown.returncode, shown.stdout) == (0, "")
        assert shown.stderr.startswith("Usage of nsqlookupd:\n  -broadcast-address string\n")


@pytest.mark.parametrize(
    ("program", "flag"),
    [("nsqd", "--tcp-address"), ("nsqd", "--http-address"), ("nsqd", "--rocketmq-address"),
     ("nsqlookupd", "--http-address")],
)  # fmt: skip
def test_a_taken_port_is_said_without_lines_about_anything_else(
    running: Daemon, tmp_path: Path, program: str, flag: str
) -> None:
    data = [f"--data-path={tmp_path}"] if program == "nsqd" else []
    done = ended(words_of(program, *ANYWHERE, f"{flag}={running.tcp}", *data))
    assert (done.returncode, done.stdout) == (1, "")
    said = [line.split(": ", 1)[1] for line in done.stderr.splitlines()]
    first = ["nsqd", "ID:"] if data else ["nsqlookupd"]
    assert [line.split(" ")[0] for line in said[:-1]] == first
    assert " FATAL: " in done.stderr.splitlines()[-1]
    assert said[-1] == (
        f"failed to instantiate {program} - listen ({running.tcp}) failed - listen tcp "
        f"{running.tcp}: bind: address already in use"
    )
    assert not (tmp_path / "nsqd.dat").exists()


# --- nsqd


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
    built = f"(built w/python{platform.python_version()})"
    assert texts[0] == f"INFO: nsqd v1.3.0 {built} of Penstock {__version__}"
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
    few = ["sh", "-c", 'ulimit -Sn 40; exec "$0" "$@"', *words_of("nsqd")]
    with run_nsqd(program=few) as daemon:
        peers = [socket.create_connection(("127.0.0.1", daemon.tcp_port), 30) for _ in range(20)]
        for number, peer in enumerate(peers):
            peer.sendall(b"  V2PUB t%d\n" % number + struct.pack(">i", 1) + b"x")
        for peer in peers:
            assert nsq_frame(peer) == (0, b"OK")
            peer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_and_silent_connections_do_not_hold_it_up(number: int, tmp_path: Path) -> None:
    program = words_of("nsqd", *ANYWHERE, f"--data-path={tmp_path}")
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        ports = listening(process)
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
    flags = [f"--tcp-address={path}", "--http-address=127.0.0.1:0", f"--data-path={tmp_path}"]
    with subprocess.Popen(words_of("nsqd", *flags), stderr=subprocess.PIPE, text=True) as process:
        listening(process, 1)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            peer.sendall(b"  V2SUB t c\n")
            assert nsq_frame(peer) == (0, b"OK")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not path.exists()


def fatal(*flags: str) -> str:
    """The text of a FATAL line, with which a start must end without a traceback."""
    done = completed("nsqd", *ANYWHERE, *flags)
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    found = re.fullmatch(r"\[nsqd\] [\d/]+ [\d:.]+ FATAL: (.*)", line)
    assert (done.returncode, done.stdout) == (1, ""), line
    assert found, line
    return found[1]


@pytest.mark.parametrize(
    ("wrong", "reason"), [("x", "missing port in address"), ("x:y", "no such port")]
)
def test_a_wrong_address_to_follow_leaves_the_data_path_as_it_was(
    tmp_path: Path, wrong: str, reason: str
) -> None:
    said = fatal(f"--follow={wrong}", f"--data-path={tmp_path}")
    assert f"--follow={wrong}: address {wrong}: {reason}; give the primary's HTTP" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tcp-address=nonsense"],
         "failed to instantiate nsqd - listen (nonsense) failed - "),
        (["--tcp-address=127.0.0.1:99999"],
         "failed to instantiate nsqd - listen (127.0.0.1:99999) failed - "),
        (["--tcp-address=127.0.0.1:x"],
         "failed to instantiate nsqd - listen (127.0.0.1:x) failed - "),
        (["--data-path=TMP/missing"], "failed to instantiate nsqd - failed to lock data-path: open "
         "TMP/missing: no such file or directory"),
        (["--data-path=TMP/file"],
         "failed to instantiate nsqd - failed to lock data-path: open TMP/file: "),
        (["--data-path=TAKEN"], "failed to instantiate nsqd - failed to lock data-path: cannot "
         "flock directory TAKEN - resource temporarily unavailable (possibly in use by another "
         "instance of nsqd)"),
        # Nobody, root included, makes files there.
        (["--data-path=/proc"], "failed to persist metadata - /proc/nsqd.dat"),
    ],
)  # fmt: skip
def test_a_start_that_is_refused(
    running: Daemon, tmp_path: Path, flags: list[str], said: str
) -> None:
    def placed(text: str) -> str:
        return text.replace("TMP", str(tmp_path)).replace("TAKEN", str(running.data_path))

    (tmp_path / "file").write_text("")
    assert fatal(f"--data-path={tmp_path}", *map(placed, flags)).startswith(placed(said))
    assert not (tmp_path / "missing").exists()


def test_a_full_disk(tmp_path: Path) -> None:
    """No byte can be written; the program says so."""

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    program = words_of("nsqd", *ANYWHERE, f"--data-path={tmp_path}")
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


# --- nsqlookupd and nsqadmin


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nsqlookupd_starts_and_ends_cleanly(number: int) -> None:
    program = words_of("nsqlookupd", *ANYWHERE)
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        port, _ = listening(process)
        with socket.create_connection(("127.0.0.1", port), 30) as peer:
            peer.sendall(b"  V1PING\n")
            assert exactly(peer, 6) == b"\0\0\0\2OK"
            process.send_signal(number)
            assert process.wait(60) == 0
        assert process.stderr is not None
        rest = process.stderr.read()
    assert "INFO: bye\n" in rest
    assert "Traceback" not in rest


def test_nsqadmin_runs_until_it_is_told_to_stop() -> None:
    with run_nsqadmin("--nsqd-http-address=127.0.0.1:9") as admin:
        with urllib.request.urlopen(f"http://{admin.http}/ping", timeout=30) as answer:
            assert answer.read() == b"OK"
        assert admin.stop() == 0
        assert "bye" in admin.log()
        admin.start()


def test_nsqadmin_ends_while_a_node_hangs() -> None:
    flags = ["--http-address=127.0.0.1:0", "--nsqd-http-address=192.0.2.1:4151"]
    with subprocess.Popen(
        words_of("nsqadmin", *flags), stderr=subprocess.PIPE, text=True
    ) as process:
        listening(process, 1)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert time.monotonic() - began < 50  # connecting alone is given 60


def test_nsqadmin_listens_before_numpy_is_loaded() -> None:
    """The history needs it, which comes last; a search or a resend loads it when it is asked."""
    code = "import sys, penstock.admin.daemon; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
