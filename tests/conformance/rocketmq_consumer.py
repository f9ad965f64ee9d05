"""Producers and consumers that say what RocketMQ's do, one turn at a time: the test says when.

A consumer asks for the members of its group whenever it is told that they are others, takes its
share of the queues, which is a block of neighbours, locks them if it is orderly, goes on at the
group's offsets, and gives back what is no longer its own (RocketMQ spec 4.1 to 4.4, 4.8, 4.11,
4.12).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from tools.harness.rocketmq.raw_client import RawClient

BROKER = "broker-a"
QUEUES = 4
SECONDS = 60.0


def send_fields(topic: str, queue: int, sys_flag: int = 0, **values: Any) -> dict[str, Any]:
    """The fields of a send; ``values`` are the message's properties."""
    return {
        "a": "PG", "b": topic, "c": "TBW102", "d": QUEUES, "e": queue, "f": sys_flag,
        "g": int(time.time() * 1000), "h": 0, "i": properties.join(values), "j": 0, "k": "false",
        "m": "false",
    }  # fmt: skip


def send(
    client: RawClient, topic: str, body: bytes, queue: int = 0, sys_flag: int = 0, **values: Any
) -> dict[str, str]:
    """Send a message; the fields of the answer."""
    fields = send_fields(topic, queue, sys_flag, **values)
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, body, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.ext or {}


def make_topic(client: RawClient, topic: str) -> None:
    """Make it, or leave it as it is."""
    answer = client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", perm=6,
        readQueueNums=QUEUES, writeQueueNums=QUEUES, topicFilterType="SINGLE_TAG", order="false",
    )  # fmt: skip
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def fill(client: RawClient, topic: str, prefix: str, count: int, **values: Any) -> list[bytes]:
    """Send so many messages to each queue; their bodies are ``prefix-queue-number``."""
    bodies = []
    for number in range(count):
        for queue in range(QUEUES):
            bodies.append(f"{prefix}-{queue}-{number}".encode())
            send(client, topic, bodies[-1], queue, **values)
    return bodies


class Queue(NamedTuple):
    """A queue of the broker; sorted as clients sort them."""

    topic: str
    number: int

    def to_json(self) -> dict[str, Any]:
        return {"brokerName": BROKER, "queueId": self.number, "topic": self.topic}


class Consumer:
    """A push consumer. ``topics`` says what it wants of each, by tags or, as ``kind``, by SQL92.

    ``got`` is what it has consumed, in order; several may share one list. ``own`` are the offsets
    of a broadcast consumer, which keeps them itself. With ``is_told_nothing_found`` it asks to be
    told that its group has no offset, instead of 0.
    """

    def __init__(
        self, port: int, group: str, client_id: str, topics: Mapping[str, str], *,
        kind: str = "TAG", is_orderly: bool = False, own: dict[Queue, int] | None = None,
        got: list[StoredMessage] | None = None, is_told_nothing_found: bool = False,
    ) -> None:  # fmt: skip
        self.group = group
        self.client_id = client_id
        self.got = got if got is not None else []
        self.commits = True
        """Whether it tells the broker how far it is."""
        self._topics = dict(topics)
        self._kind = kind
        self._is_orderly = is_orderly
        self._own = own
        self._asks_more = {"setZeroIfNotFound": "false"} if is_told_nothing_found else {}
        self._offsets: dict[Queue, int] = {}
        self._client = RawClient(port)
        self._is_stale = True
        self._beat()

    @property
    def bodies(self) -> list[bytes]:
        """What it has consumed."""
        return [message.body for message in self.got]

    @property
    def queues(self) -> list[Queue]:
        """Those that are its own."""
        return sorted(self._offsets)

    def turn(self) -> bool:
        """Pull once from each queue; whether there was anything, or it lacks a queue still."""
        if not self._offsets:
            self._beat()  # with the answer comes what it was told
        self._heed()
        before = len(self.got)
        for queue in list(self._offsets):
            self._consume(queue)
        return len(self.got) > before or self._is_stale

    def leave(self) -> None:
        """Shut down: what it has goes to others at once."""
        for queue in self.queues:
            self._give_up(queue)
        self._ask(RequestCode.UNREGISTER_CLIENT, clientID=self.client_id, consumerGroup=self.group)
        self.crash()

    def crash(self) -> None:
        self._client.close()

    # --- its group -----------------------------------------------------------------------------

    def _beat(self) -> None:
        subscriptions = [
            {"topic": topic, "subString": text, "expressionType": self._kind, "subVersion": 1}
            for topic, text in self._topics.items()
        ]
        group = {
            "groupName": self.group, "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING" if self._own is None else "BROADCASTING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": subscriptions,
        }  # fmt: skip
        body = {"clientID": self.client_id, "consumerDataSet": [group], "producerDataSet": []}
        self._ask(RequestCode.HEART_BEAT, json.dumps(body).encode())

    def _heed(self) -> None:
        """Do what it was told to meanwhile."""
        told = self._client.requests.copy()
        self._client.requests.clear()
        for request in told:
            if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._is_stale = True
            elif request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self._reset(fastjson.loads(request.body)["offsetTable"])
        if self._is_stale:
            self._balance()

    def _balance(self) -> None:
        """Take what is its own by now, and give the rest back."""
        members = [self.client_id] if self._own is not None else self._members()
        wanted = set[Queue]()
        for topic in self._topics:
            wanted.update(share(topic, members, self.client_id))
        for queue in self._offsets.keys() - wanted:
            self._give_up(queue)
        new = sorted(wanted - self._offsets.keys())
        for queue in self._locked(new) if self._is_orderly else new:
            self._offsets[queue] = self._first(queue)
        self._is_stale = self._offsets.keys() != wanted

    def _members(self) -> list[str]:
        answer = self._ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=self.group)
        return sorted(fastjson.loads(answer.body)["consumerIdList"])

    def _locked(self, queues: list[Queue]) -> list[Queue]:
        """Those that no other member holds."""
        answer = self._ask(RequestCode.LOCK_BATCH_MQ, self._lock_body(queues))
        held = fastjson.loads(answer.body)["lockOKMQSet"]
        return [Queue(each["topic"], each["queueId"]) for each in held]

    def _lock_body(self, queues: list[Queue]) -> bytes:
        names = [queue.to_json() for queue in queues]
        body = {"clientId": self.client_id, "consumerGroup": self.group, "mqSet": names}
        return json.dumps(body).encode()

    def _give_up(self, queue: Queue) -> None:
        self._commit(queue)
        del self._offsets[queue]
        if self._is_orderly:
            self._ask(RequestCode.UNLOCK_BATCH_MQ, self._lock_body([queue]))

    # --- its queues ----------------------------------------------------------------------------

    def _first(self, queue: Queue) -> int:
        """Where it begins: where the group is; else, broadcasting, at the end, or at 0."""
        if self._own is not None:
            if queue not in self._own:
                end = self._ask(RequestCode.GET_MAX_OFFSET, **_fields(queue))
                self._own[queue] = end.int64("offset")
            return self._own[queue]
        fields = {**_fields(queue), **self._asks_more, "consumerGroup": self.group}
        answer = self._client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            assert self._asks_more, "nobody wanted to know"
            return 0
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.int64("offset")

    def _consume(self, queue: Queue) -> None:
        if queue not in self._offsets:
            return
        offset = self._offsets[queue]
        answer = self._client.ask(
            RequestCode.PULL_MESSAGE, consumerGroup=self.group, queueOffset=offset, maxMsgNums=32,
            sysFlag=0, commitOffset=0, suspendTimeoutMillis=0, subVersion=1,
            expressionType=self._kind, **_fields(queue),
        )  # fmt: skip
        self._heed()
        if self._offsets.get(queue) != offset:
            return  # it is no longer its own, or goes on elsewhere
        if answer.code == ResponseCode.SUCCESS:
            self.got += decode_all(answer.body)
        self._offsets[queue] = answer.int64("nextBeginOffset")
        if self._offsets[queue] != offset:
            self._commit(queue)

    def _commit(self, queue: Queue) -> None:
        if self._own is not None:
            self._own[queue] = self._offsets[queue]
        elif self.commits:
            fields = {**_fields(queue), "consumerGroup": self.group}
            self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=self._offsets[queue],
                      **fields)  # fmt: skip

    def _reset(self, table: Mapping[fastjson.ObjectKey, int]) -> None:
        """Go on where the administrator wants it, and let the broker know."""
        for key, offset in table.items():
            names = dict(key)
            queue = Queue(names["topic"], names["queueId"])
            if queue in self._offsets:
                self._offsets[queue] = offset
                self._commit(queue)

    def _ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        answer = self._client.ask(code, body, **fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer


def share(topic: str, members: list[str], member: str) -> list[Queue]:
    """The queues of one member: neighbours; the first members have one more where it must be."""
    place = members.index(member)
    each, more = divmod(QUEUES, len(members))
    first = place * each + min(place, more)
    return [Queue(topic, n) for n in range(first, first + each + (place < more))]


def run(done: Callable[[], bool], *consumers: Consumer) -> None:
    """Let them take turns until it is done."""
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline, [(c.queues, len(c.got)) for c in consumers]
        for consumer in consumers:
            consumer.turn()


def drain(*consumers: Consumer) -> None:
    """Let them take turns until none of them finds anything, and all have their queues."""
    run(lambda: not any(consumer.turn() for consumer in consumers), *consumers)


def _fields(queue: Queue) -> dict[str, Any]:
    return {"topic": queue.topic, "queueId": queue.number}
