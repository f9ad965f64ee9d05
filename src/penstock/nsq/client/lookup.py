"""Asking nsqlookupd which nodes have a topic."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from penstock.cluster.blocking import Daemon
from penstock.cluster.exchange import ACCEPT
from penstock.cluster.reasons import go_reason
from penstock.cluster.upstream_errors import UnreachableError
from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port
from penstock.net.http.client.keep_alive import Tls
from penstock.nsq.client.errors import LookupFailed

ANSWER_MAX = 16 << 20
"""Bytes of an answer of nsqlookupd."""


_Answer = TypeVar("_Answer")


class Node(NamedTuple):
    """A node that has the topic."""

    broadcast_address: str
    tcp_port: int
    http_port: int
    hostname: str = ""
    version: str = ""

    @property
    def tcp_address(self) -> str:
        """The address to consume from and to publish to."""
        return join_host_port(self.broadcast_address, self.tcp_port)

    @property
    def http_address(self) -> str:
        """The address to read the log at."""
        return join_host_port(self.broadcast_address, self.http_port)


def lookup(
    addresses: Iterable[str],
    topic: str,
    timeout: float = 5.0,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> list[Node]:
    """The nodes that have ``topic``, from all these nsqlookupds together, sorted.

    ``timeout`` is for each of them, in seconds; ``tls`` for those with an https URL. A topic nobody
    knows has no nodes. Raises LookupFailed when none of the nsqlookupds answers.
    """
    sent = {"Accept": ACCEPT, **(headers or {})}

    def ask(address: str) -> list[Node]:
        return parse_answer(*fetch(lookup_url(address, topic), sent, timeout, tls))

    answers = _of_those_that_answer(addresses, ask, f"lookup of topic {topic!r} failed: ")
    return sorted({node for nodes in answers for node in nodes})


def topics_of_nodes(
    addresses: Iterable[str],
    timeout: float = 5.0,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> dict[Node, set[str]]:
    """Every node that these nsqlookupds know, with its topics but for those that are tombstoned.

    Options and errors are those of ``lookup``.
    """
    sent = {"Accept": ACCEPT, **(headers or {})}

    def ask(address: str) -> dict[Node, set[str]]:
        return _parse_nodes(*fetch(_nodes_url(address), sent, timeout, tls))

    found: dict[Node, set[str]] = {}
    for answer in _of_those_that_answer(addresses, ask, "lookup of the nodes failed: "):
        for node, topics in answer.items():
            found.setdefault(node, set()).update(topics)
    return found


def _of_those_that_answer(
    addresses: Iterable[str], ask: Callable[[str], _Answer], failure: str
) -> list[_Answer]:
    """The answers of the nsqlookupds; LookupFailed if there are failures only."""
    answers: list[_Answer] = []
    failures = []
    for address in addresses:
        try:
            answers.append(ask(address))
        except UnreachableError as error:
            failures.append(f"{without_secrets(address)}: {error.short}")
        except (LookupFailed, ValueError) as error:
            failures.append(f"{without_secrets(address)}: {error}")
    if failures and not answers:
        raise LookupFailed(failure + "; ".join(failures))
    return answers


def lookup_url(address: str, topic: str) -> str:
    """The URL to ask; an address may be host:port or a URL with its own path and query."""
    parts = urlsplit(address if "://" in address else "http://" + address)
    # go-nsq takes an address without a path, or with / alone, to mean /lookup.
    path = parts.path if parts.path not in ("", "/") else "/lookup"
    query = f"{parts.query}&" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{path}?{query}topic={quote(topic, safe='')}"


def _nodes_url(address: str) -> str:
    """The URL of /nodes, beside the /lookup of an address with a path."""
    url, _, query = lookup_url(address, "").partition("?")
    query = query.removesuffix("topic=").rstrip("&")
    return f"{url.removesuffix('/lookup').rstrip('/')}/nodes" + (f"?{query}" if query else "")


def parse_answer(status: int, body: bytes) -> list[Node]:
    """The nodes of an answer of nsqlookupd; none for a topic that it does not know.

    Raises LookupFailed.
    """
    return _each_producer(status, body, _node)


def _parse_nodes(status: int, body: bytes) -> dict[Node, set[str]]:
    """The nodes of an answer to /nodes with the topics that they offer. Raises LookupFailed."""
    found: dict[Node, set[str]] = {}
    for node, topics in _each_producer(status, body, lambda each: (_node(each), _offered(each))):
        found.setdefault(node, set()).update(topics)
    return found


def _each_producer(
    status: int, body: bytes, read: Callable[[dict[str, Any]], _Answer]
) -> list[_Answer]:
    """The producers of an answer, wrapped in ``data`` (before NSQ 1.0) or not, each as it is read.

    Raises LookupFailed.
    """
    try:
        answer = json.loads(body or b"{}")
        # Not a failure: a consumer may come before the first publish (NSQ spec 4.2).
        if status == 404 and answer.get("message") == "TOPIC_NOT_FOUND":
            return []
        if status != 200:
            raise LookupFailed(f"status {status} {answer.get('message', '')}".rstrip())
        # nsqlookupd before 1.0 wrapped the answer in "data", as its documents still say.
        return [read(each) for each in (answer.get("data") or answer).get("producers") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LookupFailed(f"status {status}, no answer of nsqlookupd: {error!r}") from error


def lookup_failed(url: str, error: BaseException, reason: str) -> LookupFailed:
    """The reason why there was no answer; a refused connection in the words of Go's dialer."""
    if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionResetError):
        reason = go_reason(error, urlsplit(url).netloc.rpartition("@")[2], connecting=True)
    return LookupFailed(reason)


def _offered(producer: dict[str, Any]) -> set[str]:
    """The topics of a node but for those that are tombstoned."""
    topics = producer.get("topics") or []
    hidden = producer.get("tombstones") or [False] * len(topics)
    return {str(name) for name, gone in zip(topics, hidden, strict=True) if not gone}


def _node(producer: dict[str, Any]) -> Node:
    return Node(
        str(producer["broadcast_address"]),
        int(str(producer["tcp_port"])),
        int(str(producer.get("http_port", 0))),  # only the two above are promised
        str(producer.get("hostname", "")),
        str(producer.get("version", "")),
    )


def fetch(
    url: str, headers: dict[str, str], timeout: float, tls: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Status and body of what a GET of this URL gives; each wait is ``timeout`` seconds at most.

    ``tls`` says whom to trust over https, by default the system's authorities. Raises
    UnreachableError, and ValueError for an invalid URL.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    target = parts._replace(scheme="", netloc="", fragment="").geturl()
    own = None if tls is None else Tls(tls)
    with Daemon(
        f"{parts.scheme}://{host}", timeout, tls=own, headers=headers, max_body=ANSWER_MAX, tries=1
    ) as lookupd:
        reply = lookupd.ask("GET", target)
    return reply.status, reply.body
