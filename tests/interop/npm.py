"""Installing a JavaScript client into the virtual environment, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.own_network import network_outside

HOME = Path(sys.prefix) / "share" / "penstock-interop"
INSTALL_S_MAX = 120.0
TRIES = 3
# Without optional parts: they need a compiler, and npm may trip over undoing one that failed.
OPTIONS = ("--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional")


def modules_of(package: str) -> Path:
    """The node_modules of a package `name@version`, installed at the first time, whole or not.

    Raises AssertionError with npm's words when it cannot be installed.
    """
    home = HOME / package
    if not home.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME, ignore_cleanup_errors=True) as folder:
            install(package, Path(folder)).rename(home)
    return home / "node_modules"


def install(package: str, folder: Path) -> Path:
    """Install into a folder of the folder, a new one for each try; returns the one that worked."""
    said = ""
    for number in range(TRIES):
        fresh = folder / str(number)
        fresh.mkdir()
        command = ["npm", "install", *OPTIONS, "--prefix", str(fresh), package]
        with network_outside():
            outcome = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S_MAX)
        if outcome.returncode == 0:
            return fresh
        said = outcome.stdout + outcome.stderr
        shutil.rmtree(fresh, ignore_errors=True)
    raise AssertionError(f"npm cannot install {package}:\n{said}")
