"""The wheel in new environments, as users install it: ``python -m tools.release.fresh PYTHON...``.

Each of these Pythons gets an environment into which pip installs the wheel. There each console
command says its version and its help, and a message goes by to_nsq, nsqd and nsq_tail. Printed are
the seconds of the install, its size on disk and what went wrong, a row for each Python. Extras may
follow a Python: ``python3.13[spark]``, or all of them: ``--with=spark``. Of ``spark`` and ``arrow``
it is tried that they read a topic, of ``demo`` that it proves its sums.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from penstock.testing.daemons import run_nsqd
from tools.harness.processes import children_cpu_s

from . import built

PYTHONS: Final = ("python3.11", "python3.12", "python3.13", "python3.14")
_MB: Final = 1_000_000
_BAD: Final = re.compile(r"Traceback|Warning:")


def environment(folder: Path) -> dict[str, str]:
    """The variables of a shell in which the environment is active."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    return {**kept, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def faults(folder: Path, commands: list[str]) -> Iterator[str]:
    """A line for each thing that goes wrong in an environment that has Penstock."""
    for command in commands:
        for flag in ("--version", "--help"):
            done = _run(folder, command, flag)
            said = done.stdout + done.stderr  # NSQ's tools say their help on stderr, as Go's do
            if done.returncode or not said or _BAD.search(said):
                yield f"{command} {flag}: exit code {done.returncode}, {said or 'no output'}"
    yield from _round_trip(folder)


def faults_of_extras(folder: Path, extras: str) -> Iterator[str]:
    """A line for each thing that goes wrong with these extras, which have commas between."""
    for extra in extras.split(","):
        if extra in _EXTRAS:
            yield from _EXTRAS[extra](folder)


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


def _spark(folder: Path) -> Iterator[str]:
    with run_nsqd(program=str(folder / "bin" / "nsqd")) as nsqd:
        _run(folder, "to_nsq", "--topic=kept", f"--nsqd-tcp-address={nsqd.tcp}", said="1\n2\n")
        yield from _of_spark(folder, "pipeline", "run", "archive", "--topic=kept", "--to=kept",
                             "--checkpoint=kept.checkpoint", "--available-now",
                             f"--nsqd-http-address={nsqd.http}")  # fmt: skip
    yield from _counted(folder, "from pyarrow.parquet import read_table as read", "read('kept')")


def _demo(folder: Path) -> Iterator[str]:
    yield from _of_spark(folder, "demo", "--rate=0", "--events=2000", "--no-keep")


def _of_spark(folder: Path, *words: str) -> Iterator[str]:
    # Warnings of Spark's own processes are no faults of ours.
    ran = _run(folder, "penstock", *words, python_warnings="default", seconds=300)
    if ran.returncode:
        yield f"penstock {' '.join(words)}: exit code {ran.returncode}, {ran.stdout}{ran.stderr}"


def _arrow(folder: Path) -> Iterator[str]:
    with run_nsqd(program=str(folder / "bin" / "nsqd")) as nsqd:
        _run(folder, "to_nsq", "--topic=kept", f"--nsqd-tcp-address={nsqd.tcp}", said="1\n2\n")
        read = f"penstock.arrow.read('kept', nsqd_http_address='{nsqd.http}').read_all()"
        yield from _counted(folder, "import penstock.arrow", read)


def _counted(folder: Path, imported: str, read: str) -> Iterator[str]:
    ran = _run(folder, "python", "-c", f"{imported}; print({read}.num_rows)")
    if ran.stdout != "2\n":
        yield f"{read}: 2 rows are wanted, not {ran.stdout or ran.stderr}"


_EXTRAS: Final = {"spark": _spark, "arrow": _arrow, "demo": _demo}


def _run(
    folder: Path,
    *words: str,
    said: str = "",
    python_warnings: str = "error",
    seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    # A warning of Python's that a user would see is a fault.
    return subprocess.run(
        [str(folder / "bin" / words[0]), *words[1:]], input=said,
        env=environment(folder) | {"PYTHONWARNINGS": python_warnings},
        cwd=folder, capture_output=True, text=True, timeout=seconds,
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
        tried = chain(faults(folder, built.commands(wheel)),
                      faults_of_extras(folder, extras.rstrip("]")))  # fmt: skip
        found = [f"{wanted}: {fault}" for fault in tried]
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
    parser = argparse.ArgumentParser(prog="python -m tools.release.fresh")
    parser.add_argument("pythons", nargs="*", default=PYTHONS)
    parser.add_argument("--with", default="", dest="extras", help="extras, with commas between")
    given = parser.parse_args(arguments)
    bracket = f"[{given.extras}]" if given.extras else ""
    wanted = [f"{python}{bracket}" for python in given.pythons]
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
