"""The log of one broker by RocketMQ's own protocol: Java's of any version, or Penstock's.

A Java broker gives at most 32 messages a pull as it is delivered, so several pulls are under way
together. It has no ids of logs, and its groups hold nothing: they only show how far a reader is.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import MILLISECOND, SECOND
from penstock.log_api.errors import (
    LogError,
    NodeError,
    NodeUnreachable,
    OffsetOutOfRange,
    TlsFailed,
    TopicNotFound,
)
from penstock.log_api.log_client import Changes, Fetched, Offsets, QueueBounds
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol import fastjson, membership, requests
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import decode
from penstock.rocketmq.protocol.requests import Request

PULLS_AT_ONCE: Final = 32
MESSAGES_MAX: Final = 1024
"""The most messages of one pull; brokers give what their settings allow."""
RECORD_BYTES: Final = 1024
"""The assumed size of a message, which no broker reports."""
# Java's clients beat every 30 s (RocketMQ spec 2.3). Here a beat goes with a commit, and these come
# at the pace of batches.
_BEAT_EVERY_NS: Final = 15 * SECOND
_LATER: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_AGAIN: Final = 503
_ANSWERED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.QUERY_NOT_FOUND,
)


class Pulled(NamedTuple):
    """The answer to a pull at offset ``asked``: the next offset, the queue's bounds, messages."""

    asked: int
    next: int
    start: int
    end: int
    data: bytes


class BrokerLog:
    """A broker as the Spark source sees a node (``spark.access.LogNode``)."""

    def __init__(self, link: RemotingLink, group: str) -> None:
        self.node = link.address
        self._link = link
        self._group = group
        self._topics: set[str] = set()
        self._committed: set[tuple[str, str]] = set()
        """Groups and topics whose first commit was answered."""
        self._beat_ns: int | None = None

    def close(self) -> None:
        """Give the connection back; a later request opens another."""
        self._link.close()

    def topics(self) -> list[str]:
        """The names of the broker's topics."""
        answer = self._ask(requests.topic_configs(), "")
        return list(self._object(answer, "topicConfigTable"))

    def offsets_of(self, topics: Sequence[str]) -> dict[str, Offsets | None]:
        """The bounds of topics; None for those that the broker does not have."""
        return {topic: self._offsets(topic) for topic in topics}

    def _offsets(self, topic: str) -> Offsets | None:
        try:
            answer = self._ask(requests.topic_stats(topic), topic)
        except TopicNotFound:
            return None
        node, queues = self.node, []
        for key, value in self._object(answer, "offsetTable").items():
            try:
                # RocketMQ spec 2.4, code 202: the keys of this table are objects.
                node, queue, _ = MessageQueue.from_json(dict(key))
                start, end = max(0, int(value["minOffset"])), int(value["maxOffset"])
            except (BodyError, KeyError, TypeError, ValueError):
                raise self._nonsense("offsets") from None
            queues.append(QueueBounds(queue, start, end, (end - start) * RECORD_BYTES))
        return Offsets(node, topic, sorted(queues), {})

    def changes(self, since: int) -> Changes:
        """Nothing that a broker could say: all logs may have changed."""
        return Changes(0, None)

    def fetch(
        self, topic: str, offset: int, *, queue: int = 0, max_bytes: int = 4 << 20
    ) -> Fetched:
        """Stored messages from ``offset`` on, about ``max_bytes`` of them; none at the end.

        The first is behind ``offset`` where the broker has lost some. Raises OffsetOutOfRange.
        """
        pulled = self._pull(topic, queue, range(offset, offset + 1), MESSAGES_MAX)
        found = _Run(offset)
        found.take(pulled)
        while found.goes_on and found.nbytes < max_bytes:
            # The next pulls start where those before end if each brings as many as the last one.
            pulls = min(PULLS_AT_ONCE, 1 + (max_bytes - found.nbytes) // found.last_nbytes)
            last = min(found.end, found.next + pulls * found.step)
            asked = range(found.next, last, found.step)
            found.take(self._pull(topic, queue, asked, found.step))
        return Fetched(b"".join(found.data), found.start, found.end)

    def _pull(self, topic: str, queue: int, offsets: range, count: int) -> Iterator[Pulled]:
        """The answers to pulls at these offsets, up to one that the queue does not hold any more.

        Raises OffsetOutOfRange if that is the first.
        """
        group, place = self._group or requests.TOOLS_GROUP, _place(topic, queue)
        asked = [requests.pull(group, place, offset, count) for offset in offsets]
        answers = self._ask_all(asked, topic)
        for offset, answer in zip(offsets, answers, strict=True):
            start, end = self._number(answer, "minOffset"), self._number(answer, "maxOffset")
            if answer.code == ResponseCode.PULL_OFFSET_MOVED:
                # Retention may go on between the pulls: what came before is whole.
                if offset > offsets[0]:
                    return
                raise OffsetOutOfRange(topic, self.node, offset, start, end)
            yield Pulled(offset, self._number(answer, "nextBeginOffset"), start, end, answer.body)

    def offset_at(self, topic: str, timestamp_ns: int, *, queue: int = 0) -> int:
        """The offset of the first message stored at this time (wall clock, ns) or later."""
        # Rounded up: RocketMQ knows milliseconds, and a message of the one before is too early.
        timestamp = -(-timestamp_ns // MILLISECOND)
        answer = self._ask(requests.offset_at(_place(topic, queue), timestamp), topic)
        offset = self._number(answer, "offset")
        # Where all are older 4.9 tells the last one, and 5.x the next to come.
        try:
            # RocketMQ spec 4.10: only the message itself shows which of the two the broker means.
            (pulled,) = self._pull(topic, queue, range(offset, offset + 1), 1)
        except OffsetOutOfRange:
            return offset
        older = bool(pulled.data) and decode(pulled.data)[0].store_ms < timestamp
        return pulled.next if older else offset

    def group_offsets(self, group: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The group's offsets by queue, of the topics that are there and have the group.

        A broker before 5.x tells 0 for a group that it does not know in a queue whose start is 0.
        """
        found: dict[str, dict[int, int]] = {}
        for topic, told in self.offsets_of(topics).items():
            queues = [] if told is None else [each.queue for each in told.queues]
            asked = [
                requests.committed(group, _place(topic, queue), setZeroIfNotFound="false")
                for queue in queues
            ]
            answers = self._ask_all(asked, topic)
            for queue, answer in zip(queues, answers, strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    found.setdefault(topic, {})[queue] = self._number(answer, "offset")
        return found

    def commit_all(
        self, group: str, offsets: Mapping[str, Mapping[int, int]], *, owner: str = ""
    ) -> dict[str, NodeError]:
        """Tell how far the group is, if the user has named it; ``owner`` is of no use here."""
        if not self._group:
            return {}
        self._beat(group, offsets)
        failed: dict[str, NodeError] = {}
        for topic, queues in offsets.items():
            asked = [
                requests.commit(group, _place(topic, queue), offset)
                for queue, offset in queues.items()
            ]
            try:
                self._commit(group, topic, asked)
            except (LogError, TopicNotFound) as error:
                failed[topic] = error
        return failed

    def _commit(self, group: str, topic: str, asked: Sequence[Request]) -> None:
        """Commit queues together, but the first of a topic alone: with it Java's broker makes the
        group's table, and of two that come at once it may lose one.
        """
        alone = 0 if (group, topic) in self._committed else 1
        for part in filter(None, (asked[:alone], asked[alone:])):
            self._ask_all(part, topic)
        if asked:  # a query that begins asks for its group without an offset
            self._committed.add((group, topic))

    def delete_groups(self, group: str, topics: Sequence[str]) -> dict[str, NodeError]:
        """Delete nothing: a group's offsets hold no messages."""
        return {}

    def _beat(self, group: str, topics: Iterable[str]) -> None:
        """Be a member of the group: the broker then makes it, and tools find it."""
        now, known = SYSTEM_CLOCK.monotonic_ns(), self._topics.issuperset(topics)
        if known and self._beat_ns is not None and now - self._beat_ns < _BEAT_EVERY_NS:
            return
        self._topics.update(topics)
        subscribed = list(map(membership.subscription, sorted(self._topics)))
        groups = membership.consuming(group, subscribed, membership.PULLS)
        client = f"{socket.gethostname()[:64]}@{os.getpid()}"
        self._ask(membership.heartbeat(client, groups), "")
        self._beat_ns = now

    # --- requests --------------------------------------------------------------------------------

    def _ask(self, request: Request, topic: str) -> Command:
        return self._ask_all([request], topic)[0]

    def _ask_all(self, asked: Sequence[Request], topic: str) -> list[Command]:
        """The answers. Raises NodeUnreachable, TopicNotFound and, for other refusals, LogError."""
        try:
            answers = self._link.ask_all(asked)
        except OSError as error:
            kind = TlsFailed if isinstance(error, ssl.SSLError) else NodeUnreachable
            raise kind(self.node, topic, str(error) or repr(error)) from error
        for answer in answers:
            self._check(answer, topic)
        return answers

    def _check(self, answer: Command, topic: str) -> None:
        if answer.code in _ANSWERED:
            return
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(topic, self.node)
        # As 503, which `spark.access.persist` tries again.
        status = _AGAIN if answer.code in _LATER else answer.code
        raise LogError(self.node, status, answer.remark or "without a reason")

    def _object(self, answer: Command, name: str) -> dict[Any, Any]:
        try:
            found = fastjson.loads(answer.body)[name]
        except (BodyError, KeyError, TypeError):
            raise self._nonsense(name) from None
        if not isinstance(found, dict):
            raise self._nonsense(name)
        return found

    def _number(self, answer: Command, name: str) -> int:
        try:
            return answer.int64(name)
        except BodyError:
            raise self._nonsense(name) from None

    def _nonsense(self, what: str) -> LogError:
        return LogError(self.node, 0, f"the answer lacks {what}: is this the address of a broker?")


def _place(topic: str, queue: int) -> MessageQueue:
    return MessageQueue("", queue, topic)


class _Run:
    """The messages of the pulls so far, one behind the other."""

    def __init__(self, offset: int) -> None:
        self.next = offset
        self.start = self.end = 0
        self.data: list[bytes] = []
        self.nbytes = 0
        self.step = 1
        self.last_nbytes = 1
        self.goes_on = True

    def take(self, pulled: Iterable[Pulled]) -> None:
        """Add those that follow; one that brought less than was hoped for ends that."""
        before = self.next
        for each in pulled:
            # The pull before brought fewer than was hoped for, so there is a hole before this one.
            if each.asked != self.next:
                break
            self.start, self.end = each.start, each.end
            if each.data:
                self.data.append(each.data)
                self.nbytes += len(each.data)
                self.step, self.last_nbytes = each.next - each.asked, len(each.data)
            self.next = max(self.next, each.next)
        self.goes_on = before < self.next < self.end
