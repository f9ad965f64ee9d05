"""The ports over a node and their TLS: opened together, and the numbers that others are told."""

from __future__ import annotations

import logging
from typing import TypeVar

from penstock.core.errors import ConfigError
from penstock.net.gate import ProtocolFactory
from penstock.net.http.server.service import HttpServer
from penstock.net.tcp import Listener, check_free, listen
from penstock.net.tls.tls_layer import ClientAuth, ServerTls
from penstock.net.tls.tls_server import over_tls
from penstock.node.node_options import NodeOptions

logger = logging.getLogger("penstock.nsqd")
replication_logger = logging.getLogger("penstock.replication")

OptionsT = TypeVar("OptionsT", bound=NodeOptions)


def server_tls(options: NodeOptions) -> ServerTls | None:
    """The TLS of the TCP and the HTTPS port; None without a certificate. Raises ConfigError."""
    if not options.tls_cert and not options.tls_key:
        return None
    if not options.tls_cert or not options.tls_key:
        given, missing = "--tls-cert", "--tls-key"
        if options.tls_key:
            given, missing = missing, given
        # Go's words, which its users look for, name nothing.
        raise ConfigError(
            "failed to build TLS config - open : no such file or directory: "
            f"{missing} is missing beside {given}"
        )
    return ServerTls(
        options.tls_cert,
        options.tls_key,
        ca_file=options.tls_root_ca_file,
        client_auth=ClientAuth.of(options.tls_client_auth_policy),
        min_version=options.tls_min_version,
    )


def check_ports(options: NodeOptions) -> None:
    """Raise ListenError when an address is taken: asked before the data path is opened, as that
    may take long, and logs what has nothing to do with it.
    """
    secure = options.https_address if options.tls_cert else ""
    for address in (options.tcp_address, options.http_address, secure):
        if address:
            check_free(address)


class Ports:
    """The TCP, HTTP and HTTPS port of the options; 0 is the number of one that is not open.

    Where followers have a port for them alone, it is at ``replication_address``, over
    ``replication_tls`` if that is given.
    """

    def __init__(
        self,
        options: NodeOptions,
        replication_address: str = "",
        replication_tls: ServerTls | None = None,
    ) -> None:
        self._options = options
        self.replication_address = replication_address
        self._replication_tls = replication_tls
        self._replication: Listener | None = None
        self._tcp: Listener | None = None
        self._http: Listener | None = None
        self._https: Listener | None = None

    async def open(
        self,
        session: ProtocolFactory | None,
        http: ProtocolFactory,
        https: ProtocolFactory | None,
    ) -> None:
        """Open those that have an address. Raises ListenError, with some of them open."""
        options = self._options
        if session is not None and options.tcp_address:
            self._tcp = await listen(session, options.tcp_address, "TCP", logger)
        # Before plain HTTP, which may have to name its port.
        if https is not None and options.https_address:
            self._https = await listen(https, options.https_address, "HTTPS", logger)
        if options.http_address:
            self._http = await listen(http, options.http_address, "HTTP", logger)

    async def open_replication(self, http: HttpServer) -> None:
        """Open the port for followers. Raises ListenError."""
        tls = self._replication_tls
        factory = http if tls is None else over_tls(tls, http, replication_logger)
        self._replication = await listen(
            factory, self.replication_address, "HA", replication_logger
        )

    @property
    def plain(self) -> list[Listener]:
        """The ports with HTTP that are open, without TLS."""
        return [self._http] if self._http is not None else []

    @property
    def replication(self) -> int:
        return self._replication.port if self._replication else 0

    @property
    def is_replication_secure(self) -> bool:
        """True if the port for followers speaks TLS."""
        return self._replication_tls is not None

    @property
    def tcp(self) -> int:
        return self._tcp.port if self._tcp else 0

    @property
    def http(self) -> int:
        return self._http.port if self._http else 0

    @property
    def https(self) -> int:
        return self._https.port if self._https else 0

    @property
    def broadcast_http(self) -> int:
        """The HTTP port that others are told."""
        # A unix socket has no port: -1 in /info, 0 for nsqlookupd (NSQ spec 3.10).
        return self._options.broadcast_http_port or max(0, self.http)

    @property
    def broadcast_tcp(self) -> int:
        """The TCP port that others are told."""
        return self._options.broadcast_tcp_port or max(0, self.tcp)

    def kept(self, options: OptionsT) -> OptionsT:
        """The options with the numbers of the ports that the system has chosen: opened again, they
        are the same.
        """
        numbers = {"tcp_address": self.tcp, "http_address": self.http, "https_address": self.https}
        addresses = {}
        for name, number in numbers.items():
            host, colon, port = getattr(options, name).rpartition(":")
            if colon and port == "0" and number > 0:
                addresses[name] = f"{host}:{number}"
        return options.replace(**addresses) if addresses else options

    async def close(self) -> None:
        """Take no more connections; those that are open stay."""
        for listener in (self._tcp, self._http, self._https, self._replication):
            if listener is not None:
                await listener.close()
