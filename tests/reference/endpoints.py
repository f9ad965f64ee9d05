"""The HTTP endpoints of the daemons, as endpoints.toml tells of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple


class Endpoint(NamedTuple):
    takes: str
    does: str


Endpoints = Mapping[str, Endpoint]

_TOLD: Final = tomllib.loads((Path(__file__).parent / "endpoints.toml").read_text(encoding="utf-8"))


def _of(*parts: str) -> Endpoints:
    return {route: Endpoint(*told) for part in parts for route, told in _TOLD[part].items()}


VITALS: Final = _of("vitals")
DAEMONS: Final = {
    "nsqd": _of("vitals", "nsqd", "debug"),
    "nsqlookupd": _of("vitals", "nsqlookupd", "debug"),
    "nsqadmin": _of("vitals", "nsqadmin"),
}
