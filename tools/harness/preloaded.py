"""Imports what Penstock's daemons and tools import, for the process that `forking` forks."""

from __future__ import annotations

import gc
import importlib
import pkgutil
from typing import Final

import penstock

UNUSED: Final = tuple(
    f"penstock.{name}"
    for name in ("spark", "arrow", "testing", "cli.pipeline", "cli.demo", "cli.penstock")
)
"""What daemons and tools do not import, and what takes long."""


def _load(package: str, path: object) -> None:
    for found in pkgutil.iter_modules(path, f"{package}."):  # type: ignore[arg-type]
        if found.name in UNUSED or found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        if found.ispkg:
            _load(found.name, module.__path__)


_load("penstock", penstock.__path__)
gc.collect()
gc.freeze()  # a collection in a fork would copy every page that has an object
