"""Asking nsqlookupd which nodes have a topic."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port
from penstock.nsq.client.dial import dial_reason
from penstock.nsq.client.errors import LookupFailed
from penstock.nsq.http_query import ACCEPT

ANSWER_MAX = 16 << 20
"""Bytes of an answer of nsqlookupd."""


class Node(NamedTuple):
    """A node that has the topic."""

    broadcast_address: str
    tcp_port: int
    http_port: int
    hostname: str = ""
    version: str = ""

    @property
    def tcp_address(self) -> str:
        """Where to consume and publish."""
        return join_host_port(self.broadcast_address, self.tcp_port)

    @property
    def http_address(self) -> str:
        """Where to read the log."""
        return join_host_port(self.broadcast_address, self.http_port)


def lookup(addresses: Iterable[str], topic: str, timeout: float = 5.0) -> list[Node]:
    """The nodes that have ``topic``, from all these nsqlookupds together, sorted.

    ``timeout`` is for each of them, in seconds. A topic nobody knows has no nodes. Raises
    LookupFailed when none of the nsqlookupds answers.
    """
    found: set[Node] = set()
    failures = []
    answers = 0
    for address in addresses:
        try:
            found.update(_ask(address, topic, timeout))
            answers += 1
        except (OSError, http.client.HTTPException, LookupFailed, ValueError) as error:
            failures.append(f"{without_secrets(address)}: {error}")
    if failures and not answers:
        raise LookupFailed(f"lookup of topic {topic!r} failed: " + "; ".join(failures))
    return sorted(found)


def lookup_url(address: str, topic: str) -> str:
    """The URL to ask; an address may be host:port or a URL with a path and query of its own."""
    parts = urlsplit(address if "://" in address else "http://" + address)
    path = parts.path if parts.path not in ("", "/") else "/lookup"
    query = f"{parts.query}&" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{path}?{query}topic={quote(topic, safe='')}"


def parse_answer(status: int, body: bytes) -> list[Node]:
    """The nodes of an answer of nsqlookupd, wrapped in ``data`` (before NSQ 1.0) or not.

    Raises LookupFailed.
    """
    try:
        answer = json.loads(body or b"{}")
        if status == 404 and answer.get("message") == "TOPIC_NOT_FOUND":
            return []
        if status != 200:
            raise LookupFailed(f"status {status} {answer.get('message', '')}".rstrip())
    except (ValueError, AttributeError) as error:
        raise LookupFailed(f"status {status}, no answer of nsqlookupd: {error!r}") from error
    return nodes_in(answer)


def nodes_in(answer: Any) -> list[Node]:
    """The nodes of a parsed answer, of /lookup or of /nodes. Raises LookupFailed."""
    try:
        answer = answer.get("data") or answer
        return [_node(producer) for producer in answer.get("producers") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LookupFailed(f"no answer of nsqlookupd: {error!r}") from error


def lookup_failed(url: str, error: BaseException, reason: str) -> LookupFailed:
    """Why there was no answer; a refused connection in the words of Go's dialer."""
    if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionResetError):
        reason = dial_reason(urlsplit(url).netloc.rpartition("@")[2], error)
    return LookupFailed(reason)


def _node(producer: dict[str, object]) -> Node:
    return Node(
        str(producer["broadcast_address"]),
        int(str(producer["tcp_port"])),
        int(str(producer.get("http_port", 0))),  # only the two above are promised
        str(producer.get("hostname", "")),
        str(producer.get("version", "")),
    )


def _ask(address: str, topic: str, timeout: float) -> list[Node]:
    return parse_answer(*fetch(lookup_url(address, topic), {"Accept": ACCEPT}, timeout))


def fetch(url: str, headers: dict[str, str], timeout: float) -> tuple[int, bytes]:
    """Status and body of what a GET of this URL gives; each wait is ``timeout`` seconds at most.

    Raises OSError, ValueError, and http.client's HTTPException.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_MAX)
    finally:
        connection.close()
