"""Python environments with a part of the packages of this one, made in a moment of links."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Final

import penstock

_OF_PACKAGES: Final = ("site-packages", "dist-packages")


def python_with(folder: Path, *packages: str) -> Path:
    """The python of a new environment that has only these packages."""
    return _linked(folder, lambda name: name in packages)


def python_without(folder: Path, *packages: str) -> Path:
    """The python of a new environment that has Penstock, and all packages but these."""
    python = _linked(folder, lambda name: name not in packages)
    source = Path(penstock.__file__).parents[1]
    (site_packages(folder) / "penstock.pth").write_text(f"{source}\n")
    return python


def site_packages(folder: Path) -> Path:
    """Where an environment in this folder has its packages."""
    (site,) = folder.glob("lib/python*/site-packages")
    return site


def package_folders() -> list[Path]:
    """The folders that this Python imports packages from, the first to be searched first.

    They are several where a ``.pth`` file adds those of another environment.
    """
    return [path for path in map(Path, sys.path) if path.name in _OF_PACKAGES and path.is_dir()]


def _linked(folder: Path, wanted: Callable[[str], bool]) -> Path:
    venv.create(folder, symlinks=True)
    site = site_packages(folder)
    for entry in (entry for packages in package_folders() for entry in packages.iterdir()):
        place = site / entry.name
        # A .pth file would bring what is left out.
        if place.exists() or entry.suffix == ".pth" or not wanted(entry.name.removesuffix(".libs")):
            continue
        if entry.is_dir():
            # A folder of its own, as Spark writes the logs of its workers into that of pyspark.
            place.mkdir()
            for inner in entry.iterdir():
                (place / inner.name).symlink_to(inner)
        else:
            place.symlink_to(entry)
    return folder / "bin" / "python"
