"""Permissions: changes by administrators, /config by networks (NSQ spec 5.1, 5.2).

A proxy in front says in a header who the user is. Anybody who reaches nsqadmin past it can say so
too; ``--trusted-proxy`` names the networks whose word counts.
"""

from __future__ import annotations

import ipaddress
import re

from penstock.admin.admin_options import AdminOptions
from penstock.core.errors import ConfigError
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CIDR = re.compile(r"[^/]+/[0-9]+")


class Access:
    """The rules of one nsqadmin."""

    def __init__(self, options: AdminOptions) -> None:
        """Read the rules from the options. Raises ConfigError for an invalid network."""
        self._is_open = not options.admin_users
        # An empty name, as of a variable that is not set, is nobody's: it would match no header.
        self._users = frozenset(user.encode() for user in options.admin_users if user)
        self._header = options.acl_http_header.lower().encode()
        self._proxies = [network("--trusted-proxy", text) for text in options.trusted_proxies]
        text = options.allow_config_from_cidr
        self._config_from = network("--allow-config-from-cidr", text) if text else None
        self.guard = Guard(options.http_allowed_origins, options.http_allowed_hosts, self._is_proxy)

    def is_admin(self, request: Request) -> bool:
        """True if this request may change things."""
        if self._is_open:
            return True
        # Of several, any may be one that a client sent and a proxy left there.
        if self._header in request.head.repeated:
            return False
        if request.headers.get(self._header, b"") not in self._users:
            return False
        return not self._proxies or self._is_proxy(request.remote)

    def check_admin(self, request: Request) -> None:
        """ApiError 403 FORBIDDEN when this request must not change things."""
        if not self.is_admin(request):
            raise ApiError(403, "FORBIDDEN")

    def check_config(self, request: Request) -> None:
        """ApiError when /config is not for this client."""
        if self._config_from is None:
            return
        address = remote_ip(request.remote)
        if address is None:
            raise ApiError(400, "INVALID_REMOTE_ADDR")
        if address not in self._config_from:
            raise ApiError(403, "FORBIDDEN")

    def _is_proxy(self, remote: str) -> bool:
        address = remote_ip(remote)
        return address is not None and any(address in each for each in self._proxies)


def network(flag: str, text: str) -> Network:
    """A network in CIDR notation. Raises ConfigError, which names the flag."""
    try:
        if not _CIDR.fullmatch(text):
            raise ValueError(text)
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        message = f"failed to parse {flag} ({text}) - invalid CIDR address: {text}"
        raise ConfigError(message) from None


def remote_ip(remote: str) -> Address | None:
    """The address in ``host:port``; None without one, which is the case for a unix socket."""
    host = remote.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
