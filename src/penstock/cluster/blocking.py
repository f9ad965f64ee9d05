"""Asking a daemon without an event loop: for commands, clients, and executors of Spark."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Any, Final

from penstock.cluster.access import Access
from penstock.cluster.exchange import ACCEPT, PROBE, Endpoint, https_port, parsed, target
from penstock.cluster.reasons import reason_of
from penstock.cluster.upstream_errors import (
    PLAIN,
    AddressError,
    RefusedError,
    SentRequest,
    UnexpectedError,
    UnreachableError,
)
from penstock.net.http.client.keep_alive import BUSY_MAX, KeepAliveConnection, Reply, Tls

ANSWER_MAX: Final = 256 << 20
"""Bytes of an answer."""


class Daemon:
    """One daemon, over one kept connection; for one thread at a time.

    ``address`` is ``host:port``, or a URL; https shows what the system trusts unless ``tls`` says
    otherwise. ``seconds`` is for each wait on the network; a daemon that has no room at the moment
    is asked again, ``tries`` times in all. Raises AddressError for an invalid address.
    """

    def __init__(
        self,
        address: str,
        seconds: float,
        *,
        tls: Tls | None = None,
        headers: Mapping[str, str] | None = None,
        max_body: int = ANSWER_MAX,
        tries: int = BUSY_MAX,
    ) -> None:
        self.endpoint = Endpoint.of(address)
        self._tries = tries
        if self.endpoint.is_secure:
            tls = tls or Tls(ssl.create_default_context())
        try:
            self._connection = KeepAliveConnection(
                *self.endpoint.host_and_port(),
                seconds,
                max_body,
                tls=tls if self.endpoint.is_secure else None,
                headers={"Accept": ACCEPT, **self.endpoint.headers, **(headers or {})},
            )
        except (ValueError, http.client.InvalidURL) as error:
            raise AddressError(str(error)) from None

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back; a later request opens another."""
        self._connection.close()

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """The JSON object at a path. Raises UpstreamError."""
        return self._object("GET", target(path, **query))

    def post(self, path: str, **query: object) -> None:
        """Have the daemon do something. Raises UpstreamError."""
        self._answered("POST", target(path, **query))

    def ask(self, method: str, asked_for: str, body: bytes | None = None) -> Reply:
        """The reply to a request that may be repeated, whatever its status.

        Raises UnreachableError.
        """
        try:
            path = self.endpoint.path + asked_for
            return self._connection.ask(method, path, body, tries=self._tries)
        except (OSError, ValueError, http.client.HTTPException) as error:
            asked = SentRequest(method, self.endpoint, asked_for)
            reason = reason_of(error, self.endpoint.address)
            raise UnreachableError(PLAIN, asked, reason) from error

    def _object(self, method: str, asked_for: str) -> dict[str, Any]:
        body = self._answered(method, asked_for).body
        answer = parsed(body)
        if not answer:
            asked = SentRequest(method, self.endpoint, asked_for)
            raise UnexpectedError(PLAIN, asked, "the answer is not a JSON object")
        return answer

    def _answered(self, method: str, asked_for: str) -> Reply:
        reply = self.ask(method, asked_for)
        if reply.status != 200:
            asked = SentRequest(method, self.endpoint, asked_for)
            raise RefusedError(PLAIN, asked, reply.status, reply.body)
        return reply


def secured(address: str, access: Access, seconds: float) -> str:
    """The URL over HTTPS where TLS is wanted, by us or by the node; else the address as it is.

    nsqlookupd knows the port of plain HTTP only, so the node is asked there, without any secret.
    Raises UnreachableError, AddressError.
    """
    if "://" in address:
        return address
    with Daemon(address, seconds) as plain:
        reply = plain.ask("GET", PROBE)
    port = https_port(reply.status, reply.body) or (access.https_port * access.tls)
    return plain.endpoint.secure(port).url("") if port else address
