"""nsqd's /config/:opt."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Final

from penstock.nsq.config_page import ConfigPage
from penstock.nsq.http_api import NsqRouter
from penstock.nsq.nsqd.statsd import resolved_prefix

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

_HIDDEN: Final = frozenset(("version", "config", "verbose", "worker_id"))


class ConfigApi(ConfigPage):
    """The /config endpoints of one nsqd."""

    def __init__(self, nsqd: Nsqd) -> None:
        super().__init__(nsqd.options, "nsqlookupd_tcp_addresses", _HIDDEN)
        self._nsqd = nsqd

    def add_routes(self, router: NsqRouter) -> None:
        router.v1("GET", "/config/:opt", self.get)
        router.v1("PUT", "/config/:opt", self.put, max_body=self._nsqd.options.max_msg_size,
                  too_big="INVALID_VALUE")  # fmt: skip

    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        self._nsqd.options.lookupd_tcp_addresses = addresses
        self._nsqd.lookup.set_addresses(addresses)

    def resolved(self, name: str, value: Any) -> Any:
        """Also what was decided at the start."""
        nsqd = self._nsqd
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
        return value.value if isinstance(value, Enum) else value
