"""The nodes a command works on: given ones, or those that nsqlookupds name; and asking them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.net.address import join_host_port, split_host_port
from penstock.net.http_kept import KeptConnection
from penstock.nsq.client.lookup import Node, lookup, nodes_in

DEFAULT_NODE: Final = "127.0.0.1:4151"
TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 256 << 20


class NodeError(PenstockError):
    """A node does not answer, or refuses."""


class NotPenstock(NodeError):
    """The node is an nsqd, but has not what only Penstock's has."""


class Api:
    """The HTTP API of one node over one kept-alive connection; for one thread at a time.

    Everything raises NodeError in one line that names the node; NotPenstock where the node does
    not know the request at all.
    """

    def __init__(self, address: str, timeout: float = TIMEOUT_S) -> None:
        self.address = address.removeprefix("http://").rstrip("/")
        try:
            host, port = split_host_port(self.address)
        except ValueError as error:
            raise NodeError(str(error)) from error
        self._host = host or "127.0.0.1"
        self._connection = KeptConnection(self._host, port, timeout, _ANSWER_BYTES_MAX)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def get(self, path: str, **query: object) -> Any:
        """The parsed answer to a GET."""
        return self._ask("GET", path, query)

    def post(self, path: str, **query: object) -> Any:
        """The parsed answer to a POST without a body."""
        return self._ask("POST", path, query)

    def topics(self) -> list[dict[str, Any]]:
        """The topics of /stats, with their channels."""
        stats = self.get("/stats", format="json", include_clients="false", include_mem="false")
        topics = stats.get("topics") if isinstance(stats, dict) else None
        return topics if isinstance(topics, list) else []

    def tcp_address(self) -> str:
        """Where to publish: the port that /info names, on the host that was asked."""
        info = self.get("/info")
        try:
            return join_host_port(self._host, int(info["tcp_port"]))
        except (KeyError, TypeError, ValueError) as error:
            raise NodeError(f"{self.address}: no nsqd answers there") from error

    def _ask(self, method: str, path: str, query: dict[str, object]) -> Any:
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            reply = self._connection.ask(method, target)
        except (OSError, http.client.HTTPException) as error:
            raise NodeError(f"{self.address} cannot be reached: {reason(error)}") from error
        answer = _parsed(reply.body)
        if reply.status == 200:
            return answer
        message = answer.get("message", "") if isinstance(answer, dict) else ""
        kind = NotPenstock if (reply.status, message) == (404, "NOT_FOUND") else NodeError
        raise kind(f"{self.address}: {reply.status} {message}".rstrip())


class Place(NamedTuple):
    """Where a node answers; ``tcp`` is empty while nobody has asked it."""

    http: str
    tcp: str = ""


def places(nsqds: Sequence[str], lookupds: Sequence[str], topic: str = "") -> list[Place]:
    """The nodes given, and those that the nsqlookupds name, for a topic or all of them.

    Without either the nsqd of this machine. Raises PenstockError when no nsqlookupd answers.
    """
    if not nsqds and not lookupds:
        return [Place(DEFAULT_NODE)]
    found = {address: Place(address) for address in nsqds}
    if lookupds:
        named = lookup(lookupds, topic) if topic else _all_nodes(lookupds)
        for node in named:
            found.setdefault(node.http_address, Place(node.http_address, node.tcp_address))
    return list(found.values())


def _all_nodes(lookupds: Sequence[str]) -> list[Node]:
    found: set[Node] = set()
    failures = []
    for address in lookupds:
        try:
            with Api(address) as api:
                answer = api.get("/nodes")
            found.update(nodes_in(answer))
        except PenstockError as error:
            failures.append(str(error))
    if failures and len(failures) == len(lookupds):
        raise NodeError("no nsqlookupd answers: " + "; ".join(failures))
    return sorted(found)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except ValueError:
        return body.decode(errors="replace")
