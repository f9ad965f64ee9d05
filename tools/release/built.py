"""Wheel and sdist, built and examined: ``python -m tools.release.built [DIRECTORY]``."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

from packaging.metadata import Metadata

from penstock.core.distribution import DISTRIBUTION

ROOT: Final = Path(__file__).parents[2]
FILES: Final = f"{DISTRIBUTION.replace('-', '_')}-*"
"""The names of wheel and sdist, for ``glob``."""
_SOURCES: Final = ("src/penstock/", "src/pyspark_nsq/", "src/pyspark_rocketmq/")
_LINK: Final = re.compile(r"\]\((?!https?:)([^)]*)\)")
_DESCRIPTION: Final = ("NSQ", "RocketMQ", "Spark", "message broker")


def project(table: str = "project") -> dict[str, Any]:
    """A table of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())[table]
    return found


def build(folder: Path, source: Path = ROOT, *kinds: str) -> None:
    """Build these kinds (``wheel``, ``sdist``; both by default), without the network."""
    targets = [word for kind in kinds for word in ("--target", kind)]
    words = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder), *targets]
    # The wheel of every platform; compiled ones are cibuildwheel's (pyproject.toml).
    env = {**os.environ, "PENSTOCK_LANE": "off"}
    subprocess.run(words, cwd=source, env=env, check=True, capture_output=True, timeout=300)


def wheel_in(folder: Path) -> Path:
    """The one wheel of a folder."""
    (wheel,) = folder.glob(f"{FILES}-none-any.whl")
    return wheel


def metadata(wheel: Path) -> Metadata:
    """What the wheel says of itself. Raises an ExceptionGroup where that is invalid."""
    return Metadata.from_email(_read(wheel, "METADATA"), validate=True)


def commands(wheel: Path) -> list[str]:
    """The names of the console commands that an install makes."""
    parser = ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(_read(wheel, "entry_points.txt").decode())
    return sorted(parser["console_scripts"])


def files(wheel: Path) -> set[str]:
    """The packages' files in the wheel, by their paths in the repository."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    return {f"src/{name}" for name in names}


def tracked() -> set[str]:
    """The packages' files that belong to the repository."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_SOURCES]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return {path for path in done.stdout.split("\0") if path and (ROOT / path).is_file()}


def faults(wheel: Path) -> list[str]:
    """All that is wrong with a wheel, one line each."""
    found, expected = metadata(wheel), project()
    said = found.description or ""
    summary = found.summary or ""
    return [
        *(f"not in the wheel: {path}" for path in sorted(tracked() - files(wheel))),
        *(f"no part of the packages: {path}" for path in sorted(files(wheel) - tracked())),
        *(f"its summary does not name {word}" for word in _DESCRIPTION if word not in summary),
        *(f"its description links into the repository: {link}" for link in _LINK.findall(said)),
        *(f"no {each} in its metadata" for each in _missing(found)),
        *([f"another name: {found.name}"] if found.name != DISTRIBUTION else []),
        *(["another version of Python"] if str(found.requires_python) != ">=3.11" else []),
        *_differing("extras", found.provides_extra or (), expected["optional-dependencies"]),
        *_differing("commands", commands(wheel), expected["scripts"]),
    ]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _missing(found: Metadata) -> list[str]:
    needed = {
        "licence": found.license_expression,
        "licence file": found.license_files,
        "description": found.description,
        "links": found.project_urls,
        "keywords": found.keywords,
        "mark of types": "Typing :: Typed" in (found.classifiers or ()),
    }
    return [what for what, value in needed.items() if not value]


def _differing(what: str, found: Iterable[str], expected: Iterable[str]) -> list[str]:
    differing = sorted(set(found) ^ set(expected))
    return [f"{what} differ: {', '.join(differing)}"] if differing else []


def _read(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return archive.read(path)


def main(arguments: list[str]) -> int:
    """Build, examine, print the files with their digests; 1 for a fault."""
    folder = Path(arguments[0] if arguments else "dist").resolve()
    for old in folder.glob(FILES):
        old.unlink()
    build(folder)
    found = faults(wheel_in(folder))
    for path in sorted(folder.glob(FILES)):
        print(f"{digest(path)}  {path.name}  {path.stat().st_size:,} bytes")
    for fault in found:
        print(f"{wheel_in(folder).name}: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
