"""The command ``penstock lease``: its store by a URL, its node over HTTP."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from penstock.cli.lease.etcd import Etcd
from penstock.cli.lease.kubernetes import Kubernetes
from penstock.cli.lease.record import LeaseError, Store
from penstock.cli.lease.tending import Tender, tend
from penstock.cluster.access import Access
from penstock.cluster.blocking import Daemon
from penstock.cluster.exchange import code_of, parsed
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.errors import UsageError
from penstock.net.http.client.keep_alive import Tls

ASK_S: Final = 2.0
PROMOTE_S: Final = 180.0


def store_of(url: str) -> Store:
    """The store at ``etcd://a:2379,b:2379/NAME``, ``etcds://...`` or ``kubernetes:NAME``. Raises
    UsageError, LeaseError.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "kubernetes" and rest and "/" not in rest:
        return Kubernetes(rest)
    hosts, slash, name = rest.removeprefix("//").partition("/")
    if scheme in ("etcd", "etcds") and hosts and slash and name:
        way = "https" if scheme == "etcds" else "http"
        return Etcd([f"{way}://{each}" for each in hosts.split(",") if each], name)
    raise UsageError(
        f"STORE {url!r} must be etcd://HOST:2379,HOST:2379/NAME (etcds:// with TLS) or "
        "kubernetes:NAME"
    )


class HttpNode:
    """The node beside, at its HTTP address."""

    def __init__(self, address: str, access: Access) -> None:
        self._address = address
        self._access = access
        self._is_gone = False

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    def _daemon(self, address: str, seconds: float) -> Daemon:
        access = self._access
        tls = Tls(access.new_context(), access.server_name) if access.concerns_tls else None
        return Daemon(address, seconds, tls=tls, headers=access.headers, tries=1)

    def status(self, address: str = "") -> dict[str, Any] | None:
        try:
            with self._daemon(address or self._address, ASK_S) as node:
                answer = node.get("/replication")
        except UpstreamError as error:
            if not address:
                self._is_gone = "connection refused" in str(error)
            return None
        if not address:
            self._is_gone = False
        return answer

    def post(self, path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        seconds = PROMOTE_S if "promote" in path else ASK_S
        try:
            with self._daemon(self._address, seconds) as node:
                reply = node.ask("POST", path, msgspec.json.encode(content))
        except UpstreamError as error:
            raise LeaseError(str(error)) from error
        return reply.status, parsed(reply.body) or {"message": code_of(reply.body)}


def run_lease(store: str, node: str, address: str, access: Access, seconds: float) -> None:
    """Look after the lease of a node until the end. Raises UsageError, LeaseError."""
    if seconds < 1:
        raise UsageError("--duration must be at least 1s")
    tender = Tender(store_of(store), HttpNode(node, access), address or node, seconds)
    tend(tender, time.sleep, lambda line: print(line, flush=True))
