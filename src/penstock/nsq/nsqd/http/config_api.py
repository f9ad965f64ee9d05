"""nsqd's /config/:opt."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, Final

from penstock.net.http.server.api import ApiRouter
from penstock.node.ports import Ports
from penstock.nsq.config_page import ConfigPage
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.stats.statsd import resolved_prefix

_HIDDEN: Final = frozenset(("version", "config", "verbose", "worker_id"))


class ConfigApi(ConfigPage):
    """The /config endpoints of one nsqd."""

    def __init__(self, options: NsqdOptions, lookup: Lookup, ports: Ports) -> None:
        super().__init__(options, "nsqlookupd_tcp_addresses", _HIDDEN)
        self._options: NsqdOptions = options
        self._lookup = lookup
        self._ports = ports

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/config/:opt", self.get)
        # nsqd bounds this body by the size of a message, and calls a longer one invalid.
        router.v1("PUT", "/config/:opt", self.put, max_body=self._options.max_msg_size,
                  too_big="INVALID_VALUE")  # fmt: skip

    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        self._options.lookupd_tcp_addresses = addresses
        self._lookup.set_addresses(addresses)

    def resolved(self, name: str, value: Any) -> Any:
        """An option's value in use, which may have been decided at the start."""
        # nsqd shows the port it listens on where the option says 0.
        if name == "broadcast_tcp_port":
            return self._ports.broadcast_tcp
        if name == "broadcast_http_port":
            return self._ports.broadcast_http
        if name == "tls_required":
            # nsqd shows its enum: 0 no, 1 tcp-https, 2 yes.
            return int(self._options.tls_needed)
        if name == "statsd_prefix":
            address = self._options.broadcast_address
            return resolved_prefix(value, address, self._ports.broadcast_http)
        if isinstance(value, IntEnum):
            return int(value)
        return value.value if isinstance(value, Enum) else value
