"""Reading a Penstock node's log by offset, over HTTP.

A topic on a node has queues, a queue has dense offsets from 0 on, and a group of consumers has one
committed offset a queue, which also keeps the node from deleting what the group has not read.

Data comes as whole batches, as they lie in the file: decode them with ``Fetched.batches`` (the only
thing here that needs numpy).
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from penstock.net.address import split_host_port
from penstock.net.http_kept import KeptConnection, Reply
from penstock.nsq.client.errors import ClientError

if TYPE_CHECKING:
    from penstock.storage.batch import Batch


_ANSWER_BYTES_MAX = (1 << 30) + (64 << 20)
"""Bytes of an answer: the largest batch, or the most that /log/fetch puts together."""


class LogError(ClientError):
    """A node refused; ``status`` is HTTP's, ``reason`` the node's word."""

    def __init__(self, node: str, status: int, reason: str) -> None:
        super().__init__(f"{node}: {status} {reason}")
        self.node = node
        self.status = status
        self.reason = reason


class TopicNotFound(ClientError):
    """The node does not have the topic."""

    def __init__(self, topic: str, node: str) -> None:
        super().__init__(f"{node} has no topic {topic!r}")
        self.topic = topic
        self.node = node


class OffsetOutOfRange(ClientError):
    """The offset is before the first the node still has, or after the next to come."""

    def __init__(self, topic: str, node: str, offset: int, start: int, end: int) -> None:
        where = f"topic {topic!r} on {node}"
        super().__init__(f"offset {offset} of {where} is outside {start}..{end}")
        self.topic = topic
        self.node = node
        self.offset = offset
        self.start = start
        self.end = end


class NodeUnreachable(ClientError):
    """The node gave no answer."""

    def __init__(self, node: str, topic: str, reason: str) -> None:
        super().__init__(f"{node} cannot be reached for topic {topic!r}: {reason}")
        self.node = node
        self.topic = topic


class QueueBounds(NamedTuple):
    """What a queue holds: offsets ``start`` up to, not including, ``end``, in ``bytes`` of file."""

    queue: int
    start: int
    end: int
    bytes: int


class Offsets(NamedTuple):
    """A topic on one node: its queues, and each group's committed offsets by queue."""

    node: str
    topic: str
    queues: list[QueueBounds]
    groups: dict[str, dict[int, int]]


class BatchProgress(NamedTuple):
    """The last batch of a query that reads for a group: its number, messages and milliseconds."""

    query: str
    batch: int
    rows: int
    rows_per_s: float
    duration_ms: int


class Fetched(NamedTuple):
    """Whole batches (``data`` is empty at the end of the log) and the queue's bounds by then."""

    data: bytes
    start: int
    end: int

    def batches(self) -> Iterator[Batch]:
        """The batches decoded, their checksums verified."""
        from penstock.storage.batch import iter_batches

        return iter_batches(self.data)


class LogClient:
    """One node's log endpoints over one kept-alive connection; for use by one thread at a time.

    ``timeout`` is in seconds and for each wait on the network. All methods raise NodeUnreachable,
    and where they concern a topic, TopicNotFound; any other refusal is a LogError.
    """

    def __init__(self, http_address: str, timeout: float = 30.0) -> None:
        self.node = http_address
        host, port = split_host_port(http_address.removeprefix("http://").rstrip("/"))
        self._connection = KeptConnection(host, port, timeout, _ANSWER_BYTES_MAX)

    def close(self) -> None:
        """Give the connection back; a later call opens another."""
        self._connection.close()

    def __enter__(self) -> LogClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topics(self) -> list[str]:
        """The names of the node's topics."""
        query = {"format": "json", "include_clients": "false", "include_mem": "false"}
        answer = self._json("GET", "/stats", "", query)
        with self._understanding():
            return [str(topic["topic_name"]) for topic in answer.get("topics") or []]

    def offsets(self, topic: str) -> Offsets:
        """The bounds of the topic's queues and the offsets of its groups."""
        answer = self._json("GET", "/log/offsets", topic, {})
        with self._understanding():
            queues = [QueueBounds(*[queue[key] for key in QueueBounds._fields])
                      for queue in answer["queues"]]  # fmt: skip
            groups = {
                group: {int(queue): offset for queue, offset in offsets.items()}
                for group, offsets in answer.get("groups", {}).items()
            }
            return Offsets(answer["node"], answer["topic"], queues, groups)

    def fetch(
        self, topic: str, offset: int, *, queue: int = 0, max_bytes: int = 4 * 1024 * 1024
    ) -> Fetched:
        """The batches from the one that holds ``offset`` on, about ``max_bytes`` but at least one.

        The first may begin before ``offset``. At the end of the log there is no data. Raises
        OffsetOutOfRange.
        """
        query = {"queue": queue, "offset": offset, "max_bytes": max_bytes}
        reply = self._request("GET", "/log/fetch", topic, query)
        if reply.status == 416:
            refusal = _parsed(reply.body)
            start, end = refusal.get("start", -1), refusal.get("end", -1)
            raise OffsetOutOfRange(topic, self.node, offset, start, end)
        self._check(reply, topic)
        with self._understanding():
            start, end = (int(reply.headers[f"X-Penstock-{name}"]) for name in ("Start", "End"))
        return Fetched(reply.body, start, end)

    def offset_at(self, topic: str, timestamp_ns: int, *, queue: int = 0) -> int:
        """The offset of the first message published at this time (wall clock, ns) or later."""
        query = {"queue": queue, "timestamp_ns": timestamp_ns}
        answer = self._json("GET", "/log/offset_at", topic, query)
        with self._understanding():
            return int(answer["offset"])

    def commit(self, topic: str, group: str, offsets: Mapping[int, int]) -> None:
        """The group has read each queue up to, not including, this offset.

        A group that is new is created; with no offsets, at the start of the log.
        """
        body = {"offsets": {str(queue): offset for queue, offset in offsets.items()}}
        self._json("POST", "/log/commit", topic, {"group": group}, json.dumps(body).encode())

    def tell_progress(self, topic: str, group: str, progress: BatchProgress) -> None:
        """What the node shows of the group's reader, until it is told anew or restarts."""
        body = json.dumps(progress._asdict()).encode()
        self._json("POST", "/log/group/progress", topic, {"group": group}, body)

    def delete_group(self, topic: str, group: str) -> None:
        """Forget the group, so that it keeps no data any more."""
        self._json("POST", "/log/group/delete", topic, {"group": group}, b"")

    def _json(
        self, method: str, path: str, topic: str, query: dict[str, Any], body: bytes | None = None
    ) -> dict[str, Any]:
        reply = self._request(method, path, topic, query, body)
        self._check(reply, topic)
        return _parsed(reply.body)

    @contextmanager
    def _understanding(self) -> Iterator[None]:
        """Somebody else's server may listen there, and answer 200 to anything."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LogError(self.node, 200, "the answer is none of a Penstock node") from None

    def _check(self, reply: Reply, topic: str) -> None:
        if reply.status == 200:
            return
        reason = str(_parsed(reply.body).get("message", ""))
        if reason == "TOPIC_NOT_FOUND":
            raise TopicNotFound(topic, self.node)
        raise LogError(self.node, reply.status, reason)

    def _request(
        self, method: str, path: str, topic: str, query: dict[str, Any], body: bytes | None = None
    ) -> Reply:
        target = path + "?" + urlencode({"topic": topic, **query} if topic else query)
        try:
            return self._connection.ask(method, target, body)
        except (OSError, http.client.HTTPException) as error:
            raise NodeUnreachable(self.node, topic, str(error) or repr(error)) from error


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
