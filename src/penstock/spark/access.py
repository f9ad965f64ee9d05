"""Requests to nodes: connections of this process, TLS, patience, and why a request failed.

A request is tried again for ``timeout`` seconds, so that a restarting nsqd does not end a query.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, Protocol, TypeVar

from penstock.cluster import access, blocking
from penstock.cluster.reasons import plain_reason, tls_remedy
from penstock.cluster.upstream_errors import UnreachableError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.log_api.errors import (
    LogError,
    NodeError,
    NodeUnreachable,
    NoDialect,
    NoLog,
    TlsFailed,
    TlsNeeded,
)
from penstock.log_api.log_client import Changes, Fetched, LogClient
from penstock.log_api.log_client import Offsets as NodeOffsets
from penstock.net.http.client.keep_alive import Tls
from penstock.net.tls.renewal import Renewed
from penstock.nsq.client.errors import LookupFailed
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.offsets import Bounds, Place

_RETRY_FIRST_S = 0.1
_RETRY_MAX_S = 1.0
_REMEDY = "; start it and run the same command to go on"
_TRUST = "options tls_root_ca_file and tls_server_name"
_SHOW = "options tls_cert and tls_key"
# What our clients put before the reason itself.
_LOOKUP = re.compile(r"^lookup of (the nodes|topic '[^']*') failed: ")
_Answer = TypeVar("_Answer")
_Kind = TypeVar("_Kind", bound=LogClient)


class LogNode(Protocol):
    """The log of one node, whatever its protocol; errors are those of ``LogClient``."""

    def close(self) -> None: ...

    def topics(self) -> list[str]: ...

    def offsets_of(self, topics: Sequence[str]) -> dict[str, NodeOffsets | None]: ...

    def changes(self, since: int) -> Changes: ...

    def fetch(
        self, topic: str, offset: int, *, queue: int = 0, max_bytes: int = ...
    ) -> Fetched: ...

    def offset_at(self, topic: str, timestamp_ns: int, *, queue: int = 0) -> int: ...

    def group_offsets(self, group: str, topics: Sequence[str]) -> dict[str, dict[int, int]]: ...

    def commit_all(
        self, group: str, offsets: Mapping[str, Mapping[int, int]], *, owner: str = ""
    ) -> dict[str, NodeError]: ...

    def delete_groups(self, group: str, topics: Sequence[str]) -> dict[str, NodeError]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(access.Access):
    """The way to ask nodes; times are seconds."""

    timeout_s: float = 10.0
    dialect: str = ""
    same_port: bool = False
    """True where one port takes both plain connections and TLS."""

    def open(self, address: str) -> LogNode:
        """A connection to a node."""
        return connect(address, self)

    def context(self) -> ssl.SSLContext | None:
        """The authorities to trust and our certificate, as the files have them; None for plain
        HTTP.

        Raises OptionError, which names the file.
        """
        return _renewed(self)() if self.tls else None

    def hurried(self, timeout_s: float) -> Access:
        """A copy that waits for less time."""
        return replace(self, timeout_s=min(self.timeout_s, timeout_s))


@cache
def _renewed(access: Access) -> Renewed:
    try:
        return access.renewed_context()
    except ConfigError as error:
        said = str(error).removeprefix("failed to build client TLS config - ")
        raise OptionError(f"TLS of format nsq: {said} (on this machine)") from None


class _Client(NamedTuple):
    node: LogNode
    context: ssl.SSLContext | None


# Connections of this process. From one that a fork shares, two would read each other's answers. A
# Python worker of Spark serves many tasks, each one thread.
_clients: dict[tuple[int, str, Access], _Client] = {}
_https_of: dict[tuple[str, Access], str] = {}


def client(address: str, access: Access) -> LogNode:
    """The connection to a node; for one thread at a time."""
    ours = (os.getpid(), address, access)
    known, context = _clients.get(ours), access.context()
    # The old connection would go on with the old certificate for as long as it is kept.
    if known is not None and known.context is not context:  # its certificate was renewed
        known.node.close()
        known = None
    if known is None:
        known = _clients[ours] = _Client(access.open(address), context)
    return known.node


def connect(address: str, access: Access) -> LogClient:
    """A connection to a node that is its caller's alone."""
    return connect_as(LogClient, address, access)


def connect_as(kind: type[_Kind], address: str, access: Access) -> _Kind:
    """``connect`` for a client of this kind."""
    context = access.context()
    tls = None if context is None else Tls(context, access.server_name)
    return kind(
        address,
        timeout=access.timeout_s,
        tls=tls,
        headers=access.headers,
        dialect=access.dialect,
    )


def close_connections() -> None:
    """Close this process's connections; later requests open new ones."""
    _https_of.clear()
    while _clients:
        _clients.popitem()[1].node.close()


def secured(address: str, access: Access) -> str:
    """The address over HTTPS where TLS is wanted: on the port that the node tells, or the option's.

    nsqlookupd knows the port of plain HTTP only.
    """
    # An address with a scheme says itself how it is asked.
    if not access.tls or access.same_port or "://" in address:
        return address
    known = _https_of.get((address, access))
    if known is None:
        known = _https_of[address, access] = persist(
            lambda: blocking.secured(address, access, access.timeout_s),
            f"node {address} cannot be asked for its HTTPS port",
            access.timeout_s,
        )
    return known


def persist(ask: Callable[[], _Answer], failure: str, timeout_s: float) -> _Answer:
    """The answer, asked for again while the node does not respond or reports trouble (5xx).

    Raises SourceError after that, at once where trying again is of no use, and any other LogError.
    """
    deadline_ns = SYSTEM_CLOCK.monotonic_ns() + int(timeout_s * 1e9)
    pause_s = _RETRY_FIRST_S
    while True:
        try:
            return ask()
        except TlsNeeded as error:
            raise SourceError(tls_needed(error.node)) from None
        except TlsFailed as error:
            raise SourceError(f"{failure}: {why(error)}") from error
        except LogError as error:
            # The node has understood and refused: the same request is refused again.
            if error.status < 500:
                raise
            last: Exception = error
        except (NodeUnreachable, UnreachableError, LookupFailed, OSError) as error:
            last = error
        # No pause that ends behind the deadline: nobody would ask after it.
        if SYSTEM_CLOCK.monotonic_ns() + int(pause_s * 1e9) > deadline_ns:
            said = f"{failure}: {why(last)} (tried for {timeout_s:g} s; option timeout)"
            raise SourceError(said if isinstance(last, LogError) else said + _REMEDY) from last
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_MAX_S)


def why(error: Exception) -> str:
    """The reason of a failed request, for a person: ``connection refused``."""
    cause = error.__cause__ or error
    said = _LOOKUP.sub("", plain_reason(cause)) or type(cause).__name__
    return said + tls_remedy(cause, _TRUST, _SHOW)


def tls_needed(node: str) -> str:
    """The sentence for a node that closes plain HTTP."""
    return (
        f"node {node} takes no plain HTTP (--tls-required): set tls_v1=true, and tls_root_ca_file "
        "if no authority of the system has signed its certificate"
    )


def no_log(error: NoLog) -> str:
    """The sentence for a node without a log."""
    return (
        f"node {error.node} has no log to read: it is Go's nsqd, or none at all. Copy its topics "
        "to a node of Penstock with nsq_to_nsq, or set skipNodesWithoutLog=true to read the others"
    )


def no_dialect(error: NoDialect) -> str:
    """The sentence for a node that does not speak RocketMQ."""
    return (
        f"node {error.node} does not serve RocketMQ's queues: it is older than this source, or "
        "runs without --rocketmq-address"
    )


def bounds_in(found: Mapping[str, NodeOffsets | None], address: str) -> dict[Place, Bounds]:
    """The places of a node's answer."""
    return {
        Place(topic, told.node, queue.queue): Bounds(
            queue.start, queue.end, queue.bytes, address, queue.log
        )
        for topic, told in found.items()
        if told is not None
        for queue in told.queues
    }
