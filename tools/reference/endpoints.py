"""The HTTP endpoints of the daemons, as endpoints.toml tells of them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple


class Endpoint(NamedTuple):
    takes: str
    does: str


Endpoints = Mapping[str, Endpoint]
_NAME: Final = re.compile(r"[a-z_]+")
_NOT_OF_THE_QUERY: Final = re.compile(r"body\??: [^;]*|`[^`]*`|\([^)]*\)|=\w+")
_BETWEEN: Final = {"one", "of", "with", "and", "or"}
"""Words that stand between names."""

_TOLD: Final = tomllib.loads((Path(__file__).parent / "endpoints.toml").read_text(encoding="utf-8"))


def _of(*parts: str) -> Endpoints:
    return {route: Endpoint(*told) for part in parts for route, told in _TOLD[part].items()}


VITALS: Final = _of("vitals")
DAEMONS: Final = {
    "nsqd": _of("vitals", "nsqd", "debug"),
    "nsqlookupd": _of("vitals", "nsqlookupd", "debug"),
    "nsqadmin": _of("vitals", "nsqadmin"),
}


def parameters(endpoints: Endpoints) -> dict[str, set[str]]:
    """The names of the query that each endpoint is said to take."""
    found: dict[str, set[str]] = {}
    before: set[str] = set()
    for route, told in endpoints.items():
        named = set(_NAME.findall(_NOT_OF_THE_QUERY.sub("", told.takes))) - _BETWEEN
        found[route] = before = before if told.takes == "the same" else named
    return found
