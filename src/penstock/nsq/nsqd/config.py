"""/config/:opt: look at any option, change two of them while nsqd runs (NSQ reference 2.6)."""

from __future__ import annotations

import json
import logging
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

from penstock.core.logs import LEVELS, parse_level
from penstock.net.http import Request, Response
from penstock.nsq.http_api import ApiError, NsqRouter, json_response, text_response
from penstock.nsq.nsqd.statsd import resolved_prefix

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

_HIDDEN = frozenset(("version", "config", "verbose", "worker_id"))
_LEVEL_NUMBERS = {level: number for number, level in enumerate(LEVELS.values(), 1)}


class ConfigApi:
    """The /config endpoints of one nsqd."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd
        declared = nsqd.options.declared.values()
        self._names = {each.key: each.name for each in declared if each.name not in _HIDDEN}

    def add_routes(self, router: NsqRouter) -> None:
        router.v1("GET", "/config/:opt", self._get)
        router.v1("PUT", "/config/:opt", self._put, max_body=self._nsqd.options.max_msg_size,
                  too_big="INVALID_VALUE")  # fmt: skip

    def _get(self, request: Request) -> Response:
        name = self._names.get(request.param)
        if name is None:
            raise ApiError(400, "INVALID_OPTION")
        return self._shown(name)

    def _put(self, request: Request) -> Response:
        if not request.body:
            raise ApiError(413, "INVALID_VALUE")
        if request.param == "nsqlookupd_tcp_addresses":
            return self._set_lookupds(request.body)
        if request.param == "log_level":
            return self._set_log_level(request.body)
        raise ApiError(400, "INVALID_OPTION")

    def _set_lookupds(self, body: bytes) -> Response:
        try:
            addresses = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(400, "INVALID_VALUE") from None
        if addresses is None:
            self._nsqd.lookup.set_addresses(())
            self._nsqd.options.lookupd_tcp_addresses = ()
            return json_response(None)
        if not isinstance(addresses, list) or not all(isinstance(a, str) for a in addresses):
            raise ApiError(400, "INVALID_VALUE")
        self._nsqd.options.lookupd_tcp_addresses = tuple(addresses)
        self._nsqd.lookup.set_addresses(addresses)
        return self._shown("lookupd_tcp_addresses")

    def _set_log_level(self, body: bytes) -> Response:
        try:
            level = parse_level(body.decode())
        except (UnicodeDecodeError, ValueError):
            raise ApiError(400, "INVALID_VALUE") from None
        self._nsqd.options.log_level = level
        logging.getLogger("penstock").setLevel(level)
        return self._shown("log_level")

    def _shown(self, name: str) -> Response:
        value = self._resolved(name, getattr(self._nsqd.options, name))
        if isinstance(value, str):
            return text_response(value)
        return json_response(value)

    def _resolved(self, name: str, value: Any) -> Any:
        """An option's value as Go would show it, with what was decided at the start filled in."""
        nsqd = self._nsqd
        if name == "log_level":
            return _LEVEL_NUMBERS[value]
        if name == "broadcast_tcp_port":
            return nsqd.broadcast_tcp_port
        if name == "broadcast_http_port":
            return nsqd.broadcast_http_port
        if name == "tls_required":
            return int(nsqd.options.tls_needed)
        if name == "statsd_prefix":
            address = nsqd.options.broadcast_address
            return resolved_prefix(value, address, nsqd.broadcast_http_port)
        if isinstance(value, IntEnum):
            return int(value)
        if isinstance(value, Enum):
            return value.value
        return list(value) if isinstance(value, tuple) else value
