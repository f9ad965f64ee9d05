"""A daemon's /config/:opt: look at any option, change two of them (NSQ spec 2.6, 5.2).

Those two are the addresses of its nsqlookupds and the level of its log.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from typing import Any, Final

from penstock.core.logs import LEVELS, parse_level
from penstock.core.redaction import without_secrets
from penstock.core.settings.options import Options
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError, json_response, text_response

_LEVEL_NUMBERS: Final = {level: number for number, level in enumerate(LEVELS.values(), 1)}


class ConfigPage(ABC):
    """The endpoint of one daemon. ``lookupds`` is the TOML key of the addresses, ``hidden`` are
    options that nobody is shown.
    """

    def __init__(self, options: Options, lookupds: str, hidden: frozenset[str]) -> None:
        self._options: Any = options
        self._lookupds = lookupds
        declared = options.declared.values()
        self._names = {each.key: each.name for each in declared if each.name not in hidden}

    def get(self, request: Request) -> Response:
        """An option's value. Raises ApiError."""
        name = self._names.get(request.param)
        if name is None:
            raise ApiError(400, "INVALID_OPTION")
        return self._shown(name)

    def put(self, request: Request) -> Response:
        """Change an option; its value then. Raises ApiError."""
        # The daemons in Go answer 413 to an empty body, as to one that is too long.
        if not request.body:
            raise ApiError(413, "INVALID_VALUE")
        if request.param == self._lookupds:
            return self._put_lookupds(request.body)
        if request.param == "log_level":
            return self._put_log_level(request.body)
        raise ApiError(400, "INVALID_OPTION")

    @abstractmethod
    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        """From now on these are the nsqlookupds."""

    @abstractmethod
    def resolved(self, name: str, value: Any) -> Any:
        """An option's value as Go would show it."""

    def _put_lookupds(self, body: bytes) -> Response:
        try:
            addresses = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(400, "INVALID_VALUE") from None
        # Go's decoder takes null for an empty list, and the answer echoes the null.
        given = [] if addresses is None else addresses
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ApiError(400, "INVALID_VALUE")
        self.set_lookupds(tuple(given))
        return json_response(addresses)

    def _put_log_level(self, body: bytes) -> Response:
        try:
            level = parse_level(body.decode())
        except ValueError:
            raise ApiError(400, "INVALID_VALUE") from None
        self._options.log_level = level
        logging.getLogger("penstock").setLevel(level)
        return self._shown("log_level")

    def _shown(self, name: str) -> Response:
        value = getattr(self._options, name)
        # Go's daemons show a level as a number, 1 for debug to 5 for fatal.
        value = _LEVEL_NUMBERS[value] if name == "log_level" else self.resolved(name, value)
        # Go's daemons send a string as it is, without the quotes of JSON.
        if isinstance(value, str):
            return text_response(without_secrets(value))
        return json_response([*map(_without_secrets, value)] if isinstance(value, tuple) else value)


def _without_secrets(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, str) else value
