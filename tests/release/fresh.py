"""The wheel in new environments, as users install it: ``python -m tests.release.fresh PYTHON...``.

Each of these Pythons gets an environment into which pip installs the wheel. There each console
command says its version and its help, and a message goes by to_nsq, nsqd and nsq_tail. Printed are
the seconds of the install, its size on disk and what went wrong, a row for each Python. Extras may
follow a Python: ``python3.13[spark]``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.testing.daemons import run_nsqd
from tests.processes import children_cpu_s

from . import built

PYTHONS: Final = ("python3.11", "python3.12", "python3.13")
_MB: Final = 1_000_000
_BAD: Final = re.compile(r"Traceback|Warning:")
# A warning of Python's that a user would see is a fault.
_STRICT: Final = {"PYTHONWARNINGS": "error"}


def environment(folder: Path) -> dict[str, str]:
    """The variables of a shell in which the environment is active."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    return {**kept, **_STRICT, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def faults(folder: Path, commands: list[str]) -> Iterator[str]:
    """A line for each thing that goes wrong in an environment that has Penstock."""
    for command in commands:
        for flag in ("--version", "--help"):
            done = _run(folder, command, flag)
            said = done.stdout + done.stderr  # NSQ's tools say their help on stderr, as Go's do
            if done.returncode or not said or _BAD.search(said):
                yield f"{command} {flag}: exit code {done.returncode}, {said or 'no output'}"
    yield from _round_trip(folder)


def _round_trip(folder: Path) -> Iterator[str]:
    with run_nsqd(program=str(folder / "bin" / "nsqd")) as nsqd:
        to = f"--nsqd-tcp-address={nsqd.tcp}"
        told = _run(folder, "to_nsq", "--topic=words", to, said="hello\n")
        if told.returncode:
            yield f"to_nsq: exit code {told.returncode}, {told.stderr}"
            return
        read = _run(folder, "nsq_tail", "--topic=words", "-n", "1", to)
        if (read.returncode, read.stdout) != (0, "hello\n"):
            yield f"nsq_tail: exit code {read.returncode}, {read.stdout}{read.stderr}"


def _run(folder: Path, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "bin" / words[0]), *words[1:]], input=said, env=environment(folder),
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def install(python: str, what: str, folder: Path) -> None:
    """A new environment with this, from pip's usual places."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", what], check=True)


def size(folder: Path) -> int:
    """Bytes on disk below a folder."""
    files = (Path(path, name) for path, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_blocks * 512 for file in files)


def measure(wanted: str, wheel: Path) -> list[str]:
    """Install, try, print a row; what went wrong."""
    python, bracket, extras = wanted.partition("[")
    with tempfile.TemporaryDirectory(prefix="penstock-fresh-") as name:
        folder = Path(name, "venv")
        began, used = time.monotonic(), children_cpu_s()
        install(python, f"{wheel}{bracket}{extras}", folder)
        seconds, used = time.monotonic() - began, children_cpu_s() - used
        found = [f"{wanted}: {fault}" for fault in faults(folder, built.commands(wheel))]
        result = f"{len(found)} faults" if found else "all commands work"
        print(f"{wanted}  {seconds:5.1f} s, {used:4.1f} of processor time  "
              f"{size(folder) // _MB:5} MB  {result}", flush=True)  # fmt: skip
    return found


def usable(python: str) -> bool:
    """True if it is on PATH and starts, which a command of pyenv may not."""
    program = python.partition("[")[0]
    if shutil.which(program) is None:
        return False
    return subprocess.run([program, "--version"], capture_output=True).returncode == 0


def main(arguments: list[str]) -> int:
    """A row for each Python; 1 for a fault, or where none can be used."""
    wanted = arguments or PYTHONS
    pythons = [python for python in wanted if usable(python)]
    for python in wanted:
        if python not in pythons:
            print(f"{python}  is not here")
    with tempfile.TemporaryDirectory(prefix="penstock-wheel-") as name:
        built.build(Path(name), built.ROOT, "wheel")
        found = [each for python in pythons for each in measure(python, built.wheel_in(Path(name)))]
    print(*found, sep="\n", file=sys.stderr, end="")
    return 1 if found or not pythons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
