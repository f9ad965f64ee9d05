"""Python environments with a part of the packages of this one, made in a moment of links."""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path


def python_with(folder: Path, *packages: str) -> Path:
    """The python of a new environment that has only these packages."""
    return _linked(folder, lambda entry: entry.name.removesuffix(".libs") in packages)


def python_without(folder: Path, *packages: str) -> Path:
    """The python of a new environment that has all packages but these."""
    return _linked(folder, lambda entry: entry.name.removesuffix(".libs") not in packages)


def site_packages(folder: Path) -> Path:
    """Where an environment in this folder has its packages."""
    (site,) = folder.glob("lib/python*/site-packages")
    return site


def _linked(folder: Path, wanted: Callable[[Path], bool]) -> Path:
    venv.create(folder, symlinks=True)
    site = site_packages(folder)
    for entry in filter(wanted, Path(sysconfig.get_path("purelib")).iterdir()):
        if entry.is_dir():
            # A folder of its own, as Spark writes the logs of its workers into that of pyspark.
            (site / entry.name).mkdir()
            for inner in entry.iterdir():
                (site / entry.name / inner.name).symlink_to(inner)
        else:
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"
