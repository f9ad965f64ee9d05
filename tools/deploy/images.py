"""Both images, step by step, where there is no Docker: ``python -m tools.deploy.images FOLDER``.

Needs root and Debian's program ``debootstrap``. The base is made of Debian's packages instead of
taken from a registry: it stays in ``FOLDER/base`` for the next time, and its Python is Debian's.
Each stage is a copy of it in which the instructions are followed under ``chroot``; the image that
comes out is started as its user. Printed are the seconds and the size of each step.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Final

from penstock.testing.daemons import Daemon

from .dockerfile import context_copy, steps
from .manifests import ROOT

DOCKER: Final = ROOT / "deploy" / "docker"
PROGRAMS: Final = ("nsqlookupd", "nsqadmin", "mqnamesrv", "mqbroker", "penstock")
_MB: Final = 1_000_000
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The new mounts go with the process. Names and certificates are the machine's: without them no
# package is found.
_ENTER: Final = """
mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
mount --bind /etc/ssl/certs "$0/etc/ssl/certs"
for each in /etc/resolv.conf /etc/hosts; do touch "$0$each"; mount --bind "$each" "$0$each"; done
exec chroot "$@"
"""


class Stage:
    """A folder that becomes an image, and what its instructions have said so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables = {"PATH": _PATH}
        self.user = "0:0"
        self.folder = "/"
        self.entrypoint: list[str] = []
        self.command: list[str] = []

    def words(self, *command: str) -> list[str]:
        """The command line that runs a command in the image; as root on the machine."""
        pip = {name: value for name, value in os.environ.items()
               if name.startswith("PIP_") and name != "PIP_FIND_LINKS"}  # fmt: skip
        given = [f"{name}={value}" for name, value in (pip | self.variables).items()]
        return ["unshare", "--mount", "sh", "-ec", _ENTER, str(self.root), "--userspec", self.user,
                str(self.root), "env", "-i", "-C", self.folder, *given, *command]  # fmt: skip

    def follow(self, word: str, rest: str, others: dict[str, Stage]) -> None:
        """Do what an instruction says. Raises ValueError for one that is not known here."""
        match word:
            case "COPY":
                self._copy(rest, others)
            case "RUN":
                subprocess.run(self.words("sh", "-ec", rest), check=True, stdout=sys.stderr)
            case "ARG" | "ENV":
                name, _, value = shlex.split(rest)[0].partition("=")
                self.variables[name] = Template(value).substitute(self.variables)
            case "USER":
                self.user = rest
            case "WORKDIR":
                self.folder = rest
                self._inside(rest).mkdir(parents=True, exist_ok=True)
            case "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            case "CMD":
                self.command = json.loads(rest)
            case "VOLUME" | "EXPOSE":
                pass  # they tell the engine what to offer
            case _:
                raise ValueError(f"{word} {rest}: no such instruction is followed here")

    def _copy(self, rest: str, others: dict[str, Stage]) -> None:
        if not rest.startswith("--from="):
            context_copy(rest, self._inside(self.folder))
            return
        stage, source, target = rest.removeprefix("--from=").split()
        found = others[stage]._inside(source)
        shutil.copytree(found, self._inside(target), symlinks=True)

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def size(folder: Path) -> int:
    """Megabytes on disk below a folder."""
    said = subprocess.check_output(["du", "--summarize", "--block-size=1", folder], text=True)
    return int(said.split()[0]) // _MB


@contextmanager
def timed(what: str, root: Path) -> Iterator[None]:
    """A row with the seconds of what is done meanwhile, and the folder's size behind it."""
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    print(f"{seconds:7.1f} s {size(root):6} MB  {what[:90]}", flush=True)


def make_base(root: Path) -> None:
    """Debian with a Python and its venv, if it is not there yet."""
    if root.exists():
        print(f"{'there':>9} {size(root):6} MB  base", flush=True)
        return
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    packages = "--include=ca-certificates,python3,python3-venv"
    made = root.with_suffix(".made")
    shutil.rmtree(made, ignore_errors=True)
    with timed(f"base: Debian {release}", root):
        subprocess.run(["debootstrap", "--variant=minbase", packages, release, made],
                       check=True, stdout=sys.stderr)  # fmt: skip
        (made / "usr" / "bin" / "python").symlink_to("python3")
        made.rename(root)


def build(file: Path, base: Path, scratch: Path) -> Stage:
    """The image of a Dockerfile, with a row for each step that does something."""
    stages: dict[str, Stage] = {}
    for step in steps(file):
        if step.word == "FROM":
            name = step.rest.partition(" AS ")[2]
            last = stages[name] = Stage(scratch / (name or "image"))
            shutil.copytree(base, last.root, symlinks=True, ignore=_devices)
        elif step.word in ("RUN", "COPY"):
            with timed(f"{step.word} {step.rest}", last.root):
                last.follow(step.word, step.rest, stages)
        else:
            last.follow(step.word, step.rest, stages)
    return last


def _devices(folder: str, names: list[str]) -> list[str]:
    """The machine's own devices are mounted instead of the base's."""
    return names if Path(folder).name == "dev" else []


def try_broker(image: Stage, scratch: Path) -> None:
    """Its command is an nsqd of its user, and its other programs start."""
    words = image.words(*image.entrypoint, *image.command)
    nsqd = Daemon(words, ["--tcp-address=127.0.0.1:0"], image.root / "data", scratch)
    nsqd.start()
    try:
        owner = Path(f"/proc/{nsqd.pid}").stat().st_uid
        if str(owner) != image.user.partition(":")[0]:
            raise ValueError(f"nsqd runs as user {owner}, not as {image.user}")
    finally:
        nsqd.close()
    for program in PROGRAMS:
        subprocess.run(image.words(program, "--version"), check=True, stdout=sys.stderr)


def try_spark(image: Stage, scratch: Path) -> None:
    """Its command says its help, and its Spark passes the tests of a new pipeline."""
    for words in (image.command, ["init", "metrics"], ["test", "metrics.toml"]):
        ran = image.words(*image.entrypoint, *words)
        subprocess.run(ran, check=True, stdout=sys.stderr, cwd=scratch)


TRIED: Final[dict[str, Callable[[Stage, Path], None]]] = {
    "Dockerfile": try_broker,
    "spark.Dockerfile": try_spark,
}


def main(arguments: list[str]) -> int:
    """Make and try each image; 1 where that cannot be done on this machine."""
    if os.geteuid() or shutil.which("debootstrap") is None:
        print("this needs root, and debootstrap (on Debian: apt-get install debootstrap)")
        return 1
    folder = Path(arguments[0]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    make_base(folder / "base")
    for name, try_image in TRIED.items():
        scratch = folder / "scratch"
        scratch.mkdir()
        try:
            print(f"\n{name}", flush=True)
            image = build(DOCKER / name, folder / "base", scratch)
            with timed("its programs start, as its user", image.root):
                try_image(image, scratch)
        finally:
            shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
