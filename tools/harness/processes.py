"""What programs left behind: processes that carry a mark (Linux), CPU time, text on a terminal."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import AnyStr

_MARK = "PENSTOCK_TEST_MARK"


def marked_environment() -> dict[str, str]:
    """An environment for one program; all that it starts inherits the mark in it."""
    return {**os.environ, _MARK: uuid.uuid4().hex, "COLUMNS": "100"}


def marked(environment: dict[str, str]) -> dict[int, str]:
    """Command lines, by process id, of the processes that live and carry this mark."""
    mark = f"{_MARK}={environment[_MARK]}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes()
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def left_over(environment: dict[str, str], within_s: float) -> dict[int, str]:
    """The processes with this mark that are still there after a time; empty as soon as none is."""
    for _ in range(int(within_s / 0.05)):
        if not marked(environment):
            return {}
        time.sleep(0.05)
    return marked(environment)


def below(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    children: list[int] = []
    with suppress(OSError):  # it ended meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text().split())
    return children + [each for child in children for each in below(child)]


def stop(pid: int, within_s: float = 60) -> None:
    """SIGSTOP, to somebody else's child too; returns once all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(int(within_s / 0.002)):
        threads = Path(f"/proc/{pid}/task").glob("*/stat")
        if {thread.read_text().rpartition(") ")[2][0] for thread in threads} == {"T"}:
            return
        time.sleep(0.002)
    raise AssertionError(f"process {pid} goes on")


def children_cpu_s() -> float:
    """Seconds of processor time of all children that have ended and were waited for: the cost of a
    program, however busy the machine is.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rest_of(program: subprocess.Popen[AnyStr], within_s: float) -> AnyStr:
    """The rest of a program's output, or of its errors where only these come to us, up to its end.

    Raises AssertionError where it has to be killed after that time.
    ``communicate`` would leave out what a ``readline`` before it has read ahead, be it half a line.
    """
    stream = program.stdout or program.stderr
    assert stream is not None
    patience = Timer(within_s, program.kill)
    patience.start()
    try:
        rest = stream.read()
        program.wait(within_s)
    finally:
        patience.cancel()
    assert program.returncode != -signal.SIGKILL, "it did not end by itself"
    return rest


def unread(words: Sequence[str]) -> tuple[int, str]:
    """Exit code and errors of a program whose output nobody reads."""
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        said = program.stderr.read()
    return program.returncode, said


def text_on(terminal: int) -> str:
    """All that was written to a pseudo-terminal whose other side is closed; closes it."""
    data = b""
    with suppress(OSError):  # its end; until then it comes in parts
        while part := os.read(terminal, 1 << 16):
            data += part
    os.close(terminal)
    return data.decode()
