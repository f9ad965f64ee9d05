"""The command line as a user meets it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from select import PIPE_BUF

import pytest

from penstock import __version__
from penstock.cli import penstock
from penstock.testing.clock import FakeClock
from tests.forwarding import wait_until


def run(*arguments: str) -> int:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            penstock.main(arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"penstock {__version__}"


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    archive = ["pipeline", "run", "archive", "--topic", "t", "--to", "o", "--checkpoint", "c"]
    assert run(*archive) == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock: say where the nodes are: --lookupd-http-address or")
    assert said.count("\n") == 1


def waiting(reader: int) -> int:
    """The bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_pipe_that_does_not_wait_gets_all_of_the_output() -> None:
    words = [sys.executable, "-m", "penstock.cli.penstock", "help", "flags", "nsqd"]
    wanted = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BUF)
    os.set_blocking(writer, False)
    # Of what is written at once nothing is taken that does not fit as a whole.
    full = PIPE_BUF - max(map(len, wanted.splitlines(keepends=True)))
    assert len(wanted) > PIPE_BUF > full > 0
    with (
        subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE) as program,
        open(reader, "rb") as output,  # the first to be closed, without which the other may wait
    ):
        os.close(writer)
        wait_until(lambda: waiting(reader) > full, lambda: f"{waiting(reader)} bytes were written")
        assert output.read() == wanted
        assert program.communicate(timeout=60)[1] == b""
    assert program.returncode == 0


def test_the_zip_for_executors_is_named_as_shells_want_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("pipeline", "zip", "--to", str(tmp_path))
    said = capsys.readouterr().out
    assert said == f"{tmp_path}/penstock-{__version__}.zip\n"
    assert Path(said.rstrip()).exists()


@pytest.mark.parametrize(
    ("command", "flag"),
    [("demo", "--rate=-1"), ("demo", "--events=0"), ("demo", "--events=-5"),
     ("up", "--nodes=0"), ("up", "--nodes=10")],
)  # fmt: skip
def test_counts_that_make_no_sense_are_refused(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, flag) == 2
    said = capsys.readouterr()
    assert flag.partition("=")[0] in said.out + said.err


def test_the_echo_of_a_signal_is_not_a_second_one() -> None:
    clock = FakeClock()
    interrupt = penstock.Interrupt(clock)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGTERM, None)
    clock.advance(200_000_000)
    interrupt(signal.SIGTERM, None)
    clock.advance(2_000_000_000)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
