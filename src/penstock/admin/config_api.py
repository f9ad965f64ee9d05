"""/config/:opt: look at any option, change two of them while nsqadmin runs (reference 5.2)."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from penstock.admin.access import Access
from penstock.admin.cluster.reads import Cluster
from penstock.admin.options import AdminOptions
from penstock.admin.router import AdminRouter
from penstock.core.logs import LEVELS, parse_level
from penstock.net.http import Request, Response
from penstock.nsq.http_api import ApiError, json_response, text_response

BODY_MAX: Final = 1 << 20
_HIDDEN: Final = frozenset(("version", "config", "verbose"))
_LEVEL_NUMBERS: Final = {level: number for number, level in enumerate(LEVELS.values(), 1)}


class ConfigApi:
    """The /config endpoints; `--allow-config-from-cidr` says for whom."""

    def __init__(self, options: AdminOptions, access: Access, cluster: Cluster) -> None:
        self._options = options
        self._access = access
        self._cluster = cluster
        declared = options.declared.values()
        self._names = {each.key: each.name for each in declared if each.name not in _HIDDEN}

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/config/:opt", self._get)
        router.v1("PUT", "/config/:opt", self._put, max_body=BODY_MAX, too_big="INVALID_VALUE")

    def _get(self, request: Request) -> Response:
        self._access.check_config(request)
        name = self._names.get(request.param)
        if name is None:
            raise ApiError(400, "INVALID_OPTION")
        return self._shown(name)

    def _put(self, request: Request) -> Response:
        self._access.check_config(request)
        if not request.body:
            raise ApiError(413, "INVALID_VALUE")
        if request.param == "nsqlookupd_http_addresses":
            return self._set_lookupds(request.body)
        if request.param == "log_level":
            return self._set_log_level(request.body)
        raise ApiError(400, "INVALID_OPTION")

    def _set_lookupds(self, body: bytes) -> Response:
        try:
            addresses = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(400, "INVALID_VALUE") from None
        given = [] if addresses is None else addresses
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ApiError(400, "INVALID_VALUE")
        self._options.lookupd_http_addresses = tuple(given)
        self._cluster.addresses = self._cluster.addresses._replace(lookupds=tuple(given))
        return json_response(addresses)

    def _set_log_level(self, body: bytes) -> Response:
        try:
            level = parse_level(body.decode())
        except ValueError:
            raise ApiError(400, "INVALID_VALUE") from None
        self._options.log_level = level
        logging.getLogger("penstock").setLevel(level)
        return self._shown("log_level")

    def _shown(self, name: str) -> Response:
        value: Any = getattr(self._options, name)
        if isinstance(value, str):
            return text_response(value)
        if name == "log_level":
            value = _LEVEL_NUMBERS[value]
        return json_response(list(value) if isinstance(value, tuple) else value)
