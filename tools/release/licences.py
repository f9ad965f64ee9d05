"""The licences of what Penstock needs, against the list in licences.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final, NamedTuple

_LIST: Final = Path(__file__).with_suffix(".toml")
_BETWEEN: Final = re.compile(r"[()]|\s+(?:AND|OR)\s+")
_APPROVED: Final = "License :: OSI Approved :: "
_CLASSIFIERS: Final = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


class Rules(NamedTuple):
    """What licences.toml says."""

    accepted: frozenset[str]
    read_by_hand: dict[str, str]
    excepted: dict[str, str]


def rules(path: Path = _LIST) -> Rules:
    """The rules in a file."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return Rules(frozenset(found["accepted"]), found["read_by_hand"], found["excepted"])


def expression(package: Distribution) -> str:
    """The licence that a package's metadata names, in SPDX's words where it can be told."""
    classifiers = [
        each.removeprefix(_APPROVED)
        for each in _all(package, "Classifier")
        if each.startswith(_APPROVED)
    ]
    named = " AND ".join(_CLASSIFIERS.get(each, each) for each in classifiers)
    found = [*_all(package, "License-Expression"), named, *_all(package, "License")]
    return next(filter(None, found), "")


def _all(package: Distribution, field: str) -> list[str]:
    return package.metadata.get_all(field) or []


def faults(packages: dict[str, Distribution], by: Rules) -> Iterator[str]:
    """A line for each package whose licence is not on the list, or is excepted without need."""
    for name, package in packages.items():
        said = by.read_by_hand.get(name) or expression(package)
        unknown = sorted(_parts(said) - by.accepted)
        if name in by.excepted:
            if said and not unknown:
                yield f"{name}: excepted without need, {said} is accepted"
        elif not said or unknown:
            named = " and ".join(unknown) or "no licence"
            yield f"{name} {package.version}: {named} is not accepted"


def _parts(said: str) -> set[str]:
    return {part.strip() for part in _BETWEEN.split(said) if part.strip()}
