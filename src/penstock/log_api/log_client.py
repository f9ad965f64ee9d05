"""Reading a Penstock node's log by offset, over HTTP.

A topic on a node has queues, a queue has dense offsets from 0 on, and a group of consumers has one
committed offset a queue, which also keeps the node from deleting what the group has not read.

Data comes as whole batches, as they lie in the file: decode them with ``Fetched.batches`` (the only
thing here that needs numpy).
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from penstock.cluster.blocking import Daemon
from penstock.cluster.exchange import https_port, parsed
from penstock.cluster.upstream_errors import UnreachableError
from penstock.log_api.errors import (
    GroupInUse,
    LogError,
    NodeError,
    NodeUnreachable,
    NoDialect,
    NoLog,
    OffsetOutOfRange,
    TlsFailed,
    TlsNeeded,
    TopicNotFound,
)
from penstock.net.http.client.keep_alive import Reply, Tls

if TYPE_CHECKING:
    from penstock.storage.batch import Batch


TOPICS_MAX: Final = 500
"""Topics of one request."""
_ANSWER_BYTES_MAX = (1 << 30) + (64 << 20)
"""Bytes of an answer: the largest batch, or the most that /log/fetch puts together."""


class QueueBounds(NamedTuple):
    """The bounds of a queue: offsets ``start`` up to, not including, ``end``, in ``bytes`` of file.

    ``log`` is the id that the log was created with; a topic that is deleted and made again has
    another one. Older nodes tell none.
    """

    queue: int
    start: int
    end: int
    bytes: int
    log: str = ""


class Offsets(NamedTuple):
    """A topic on one node: its queues, and each group's committed offsets by queue."""

    node: str
    topic: str
    queues: list[QueueBounds]
    groups: dict[str, dict[int, int]]


class Changes(NamedTuple):
    """The topics whose logs have changed, and the number to ask with next; None if all may have."""

    revision: int
    topics: frozenset[str] | None


class Fetched(NamedTuple):
    """Whole batches (``data`` is empty at the end of the log) and the queue's bounds by then.

    ``log`` is the id of the log that they are of, empty if the node tells none.
    """

    data: bytes
    start: int
    end: int
    log: str = ""

    def batches(self) -> Iterator[Batch]:
        """The batches decoded, their checksums verified."""
        from penstock.storage.batch import iter_batches

        return iter_batches(self.data)


class LogClient:
    """One node's log endpoints over one kept-alive connection; for use by one thread at a time.

    ``http_address`` is ``host:port``, or a URL; https needs ``tls``. ``timeout`` is in seconds and
    for each wait on the network. With ``dialect`` queues, offsets and messages are as that dialect
    has them; a node that does not speak it raises NoDialect. All methods raise NodeUnreachable, and
    where they concern a topic, TopicNotFound; any other refusal is a LogError.
    """

    def __init__(
        self,
        http_address: str,
        timeout: float = 30.0,
        *,
        tls: Tls | None = None,
        headers: Mapping[str, str] | None = None,
        dialect: str = "",
    ) -> None:
        self.node = http_address
        self._dialect = dialect
        self._daemon = Daemon(
            http_address, timeout, tls=tls, headers=headers, max_body=_ANSWER_BYTES_MAX
        )
        self._takes_many = True

    def close(self) -> None:
        """Give the connection back; a later call opens another."""
        self._daemon.close()

    def __enter__(self) -> Self:
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
            return self._read_offsets(answer["node"], answer)

    def offsets_of(self, topics: Sequence[str]) -> dict[str, Offsets | None]:
        """The bounds and groups of topics; None for those that the node does not have."""
        found: dict[str, Offsets | None] = {}
        for some in batched(topics):
            body = {"topics": some}
            answer = self._many("/log/offsets", {}, body) if len(some) > 1 else None
            if answer is None:
                found |= {topic: self._offsets_or_none(topic) for topic in some}
                continue
            with self._understanding():
                for each in answer["topics"]:
                    error = self._error_of(each, each["topic"])
                    if error is not None and not isinstance(error, TopicNotFound):
                        raise error
                    found[each["topic"]] = (
                        None if error else self._read_offsets(answer["node"], each)
                    )
        return found

    def changes(self, since: int) -> Changes:
        """The topics whose logs have changed since the answer of this ``revision``; 0 for the first
        answer. Raises NoLog for a node of an earlier version as well.
        """
        answer = self._json("GET", "/log/changes", "", {"since": since})
        with self._understanding():
            topics = answer.get("topics")
            known = None if topics is None else frozenset(map(str, topics))
            return Changes(int(answer["revision"]), known)

    def _read_offsets(self, node: str, answer: dict[str, Any]) -> Offsets:
        """A topic's part of an answer; older nodes answer for any dialect, asked for or not."""
        if self._dialect and answer.get("dialect") != self._dialect:
            raise NoDialect(self.node, 400, "DIALECT_NOT_SPOKEN")
        return _offsets(node, answer)

    def _offsets_or_none(self, topic: str) -> Offsets | None:
        try:
            return self.offsets(topic)
        except TopicNotFound:
            return None

    def fetch(
        self, topic: str, offset: int, *, queue: int = 0, max_bytes: int = 4 * 1024 * 1024
    ) -> Fetched:
        """The batches from the one that holds ``offset`` on, about ``max_bytes`` but at least one.

        The first may begin before ``offset``. At the end of the log there is no data. Raises
        OffsetOutOfRange.
        """
        query = {"queue": queue, "offset": offset, "max_bytes": max_bytes}
        reply = self._request("GET", "/log/fetch", topic, query)
        log = reply.headers.get("X-Penstock-Log", "")
        if reply.status == 416:
            refusal = parsed(reply.body)
            start, end = refusal.get("start", -1), refusal.get("end", -1)
            raise OffsetOutOfRange(topic, self.node, offset, start, end, log)
        self._check(reply, topic)
        with self._understanding():
            start, end = (int(reply.headers[f"X-Penstock-{name}"]) for name in ("Start", "End"))
        return Fetched(reply.body, start, end, log)

    def offset_at(self, topic: str, timestamp_ns: int, *, queue: int = 0) -> int:
        """The offset of the first message published at this time (wall clock, ns) or later."""
        query = {"queue": queue, "timestamp_ns": timestamp_ns}
        answer = self._json("GET", "/log/offset_at", topic, query)
        with self._understanding():
            return int(answer["offset"])

    def group_offsets(self, group: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The group's offsets by queue, of the topics that are there and have the group."""
        found = self.offsets_of(topics)
        return {
            topic: told.groups[group]
            for topic, told in found.items()
            if told is not None and group in told.groups
        }

    def commit(
        self, topic: str, group: str, offsets: Mapping[int, int], *, owner: str = ""
    ) -> None:
        """The group has read each queue up to, not including, this offset.

        A group that is new is created; with no offsets, at the start of the log. ``owner`` names
        the one reader that may move the group for the next minute; others get GroupInUse.
        """
        body = {"offsets": {str(queue): offset for queue, offset in offsets.items()}}
        query = {"group": group} | ({"owner": owner} if owner else {})
        self._json("POST", "/log/commit", topic, query, json.dumps(body).encode())

    def commit_all(
        self, group: str, offsets: Mapping[str, Mapping[int, int]], *, owner: str = ""
    ) -> dict[str, NodeError]:
        """``commit`` in many topics; the error of each topic where it failed."""
        query = {"group": group} | ({"owner": owner} if owner else {})

        def one(topic: str) -> None:
            self.commit(topic, group, offsets[topic], owner=owner)

        failed: dict[str, NodeError] = {}
        for some in batched(list(offsets)):
            body = {"topics": {topic: dict(offsets[topic]) for topic in some}}
            failed |= self._each("/log/commit", query, some, body, one)
        return failed

    def tell_pipeline(self, status: Mapping[str, Any]) -> None:
        """The status of a pipeline (``penstock.log_api.pipeline_status``), for the node to show."""
        self._json("POST", "/pipelines", "", {}, json.dumps(status).encode())

    def delete_group(self, topic: str, group: str) -> None:
        """Forget the group, so that it keeps no data any more."""
        self._json("POST", "/log/group/delete", topic, {"group": group}, b"")

    def delete_groups(self, group: str, topics: Sequence[str]) -> dict[str, NodeError]:
        """``delete_group`` in many topics; the error of each topic where it failed."""

        def one(topic: str) -> None:
            self.delete_group(topic, group)

        failed: dict[str, NodeError] = {}
        for some in batched(topics):
            query, body = {"group": group}, {"topics": some}
            failed |= self._each("/log/group/delete", query, some, body, one)
        return failed

    def _each(
        self,
        path: str,
        query: dict[str, Any],
        topics: Sequence[str],
        body: dict[str, Any],
        one: Callable[[str], None],
    ) -> dict[str, NodeError]:
        """One request for these topics, or one each where the node does not take many."""
        answer = self._many(path, query, body) if len(topics) > 1 else None
        if answer is not None:
            with self._understanding():
                told = {topic: self._error_of(answer["topics"][topic], topic) for topic in topics}
            return {topic: error for topic, error in told.items() if error is not None}
        failed: dict[str, NodeError] = {}
        for topic in topics:
            try:
                one(topic)
            except (TopicNotFound, LogError) as error:
                failed[topic] = error
        return failed

    def _many(
        self, path: str, query: dict[str, Any], body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The answer for many topics; None from a node that takes one at a time."""
        if not self._takes_many:
            return None
        reply = self._request("POST", path, "", query, json.dumps(body).encode())
        reason = str(parsed(reply.body).get("message", ""))
        # Older nodes know these paths for one topic: by GET only, or with the topic in the query.
        if reply.status == 405 or (reply.status == 400 and reason.startswith("MISSING_ARG")):
            # Remembered: an older node would refuse it each time.
            self._takes_many = False
            return None
        self._check(reply, "")
        return parsed(reply.body)

    def _json(
        self, method: str, path: str, topic: str, query: dict[str, Any], body: bytes | None = None
    ) -> dict[str, Any]:
        reply = self._request(method, path, topic, query, body)
        self._check(reply, topic)
        return parsed(reply.body)

    @contextmanager
    def _understanding(self) -> Iterator[None]:
        """Somebody else's server may listen there, and answer 200 to anything."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LogError(self.node, 200, "this is not the answer of a Penstock node") from None

    def _check(self, reply: Reply, topic: str) -> None:
        if reply.status == 200:
            return
        answer = parsed(reply.body)
        reason = str(answer.get("message", ""))
        # Go's nsqd says NOT_FOUND of a path that it does not know (NSQ spec 2.1). A topic that is
        # not there has a code for itself.
        if reply.status == 404 and reason in ("", "NOT_FOUND"):
            raise NoLog(self.node, reply.status, reason)
        if reply.status == 403 and reason == "TLS_REQUIRED":
            raise TlsNeeded(self.node, https_port(reply.status, reply.body))
        raise self._error_of(answer, topic, reply.status) or LogError(self.node, reply.status, "")

    def _error_of(self, answer: dict[str, Any], topic: str, status: int = 500) -> NodeError | None:
        """The error in an answer, or in a topic's part of one."""
        reason = str(answer.get("message", ""))
        if reason == "TOPIC_NOT_FOUND":
            return TopicNotFound(topic, self.node)
        if reason == "DIALECT_NOT_SPOKEN":
            return NoDialect(self.node, status, reason)
        if reason == "GROUP_IN_USE":
            return GroupInUse(self.node, str(answer.get("owner", "")), _seconds(answer))
        return LogError(self.node, status, reason) if reason else None

    def _request(
        self, method: str, path: str, topic: str, query: dict[str, Any], body: bytes | None = None
    ) -> Reply:
        of_dialect = {"dialect": self._dialect} if self._dialect else {}
        arguments = urlencode(({"topic": topic} if topic else {}) | query | of_dialect)
        target = f"{path}?{arguments}" if arguments else path
        try:
            return self._daemon.ask(method, target, body)
        except UnreachableError as error:
            cause = error.__cause__
            kind = TlsFailed if isinstance(cause, ssl.SSLError) else NodeUnreachable
            raise kind(self.node, topic, error.reason.plain) from cause


def _offsets(node: str, answer: dict[str, Any]) -> Offsets:
    """A topic's part of the answer to /log/offsets; KeyError and its like for another answer."""
    queues = [_queue_bounds(**queue) for queue in answer["queues"]]
    groups = {
        group: {int(queue): offset for queue, offset in offsets.items()}
        for group, offsets in answer.get("groups", {}).items()
    }
    return Offsets(node, answer["topic"], queues, groups)


def _queue_bounds(
    queue: int, start: int, end: int, bytes: int, log: str = "", **_: object
) -> QueueBounds:
    """A newer node may tell more. Raises TypeError for bounds that are not numbers."""
    # Not isinstance: JSON's `true` is an int to Python.
    if not all(type(each) is int for each in (queue, start, end, bytes)):
        raise TypeError("bounds of a queue are whole numbers")
    return QueueBounds(queue, start, end, bytes, log)


def _seconds(answer: dict[str, Any]) -> float:
    given = answer.get("seconds")
    return float(given) if isinstance(given, int | float) and 0 <= given < 1e9 else 0.0


def batched(topics: Sequence[str]) -> Iterator[list[str]]:
    """The topics in pieces that one request takes."""
    for first in range(0, len(topics), TOPICS_MAX):
        yield list(topics[first : first + TOPICS_MAX])
