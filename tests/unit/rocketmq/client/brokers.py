"""Brokers for the memory hub that keep messages, offsets, members and locks."""

from __future__ import annotations

from collections import defaultdict

from penstock.rocketmq.client.consume.consuming import Consumption, Unit
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.memory_hub import MemoryHub
from tools.harness.rocketmq.records import stored

C = RequestCode


def taken(core: Consumption, most: int = 1) -> Unit:
    """What is handed out next."""
    unit = core.take(most)
    assert unit is not None
    return unit


def bodies(unit: Unit) -> list[bytes]:
    return [message.body for message in unit.messages]


class Brokers:
    """Brokers for one consumer; the test looks at them, and changes them."""

    def __init__(self, hub: MemoryHub, *topics: str, names: str = "a", queues: int = 2) -> None:
        self.hub = hub
        hub.has_topic(*topics, "%RETRY%G", brokers=names, queues=queues)
        self.messages: dict[MessageQueue, list[bytes]] = defaultdict(list)
        self.offsets: dict[MessageQueue, int] = {}
        self.members = [hub.client_id]
        self.locked: set[MessageQueue] = set()
        self.others_locks: set[MessageQueue] = set()
        self.sent_back: list[Command] = []
        self.pulls = 0
        self.answers_waiting_pulls = True
        hub.answers.update(
            {
                C.GET_CONSUMER_LIST_BY_GROUP: self._members,
                C.QUERY_CONSUMER_OFFSET: self._offset,
                C.UPDATE_CONSUMER_OFFSET: self._commit,
                C.PULL_MESSAGE: self._pull,
                C.LOCK_BATCH_MQ: self._lock,
                C.UNLOCK_BATCH_MQ: self._unlock,
                C.CONSUMER_SEND_MSG_BACK: self._send_back,
                C.GET_MAX_OFFSET: self._max,
                C.GET_MIN_OFFSET: lambda _, request: request.answer(ext={"offset": "0"}),
                C.SEARCH_OFFSET_BY_TIMESTAMP: lambda _, r: r.answer(ext={"offset": "1"}),
            }
        )

    def put(self, queue: MessageQueue, *bodies: bytes, **properties: str) -> None:
        """Messages are stored."""
        for body in bodies:
            offset = len(self.messages[queue])
            record = stored(queue.topic, body, queue.queueId, offset, 0, **properties)
            self.messages[queue].append(encode(record))

    def _queue(self, address: str, request: Command) -> MessageQueue:
        return MessageQueue(
            address.partition(":")[0], request.int32("queueId"), request.text("topic")
        )

    def _members(self, _: str, request: Command) -> Command:
        return request.answer(body=fastjson.dumps({"consumerIdList": self.members}))

    def _offset(self, address: str, request: Command) -> Command:
        found = self.offsets.get(self._queue(address, request))
        if found is None:
            return request.answer(ResponseCode.QUERY_NOT_FOUND)
        return request.answer(ext={"offset": str(found)})

    def _commit(self, address: str, request: Command) -> Command:
        self.offsets[self._queue(address, request)] = request.int64("commitOffset")
        return request.answer()

    def _max(self, address: str, request: Command) -> Command:
        count = len(self.messages[self._queue(address, request)])
        return request.answer(ext={"offset": str(count)})

    def _pull(self, address: str, request: Command) -> Command | None:
        self.pulls += 1
        messages = self.messages[self._queue(address, request)]
        offset, most = request.int64("queueOffset"), request.int32("maxMsgNums")
        found = messages[offset : offset + most] if offset >= 0 else []
        fields = {
            "suggestWhichBrokerId": "0", "nextBeginOffset": str(offset + len(found)),
            "minOffset": "0", "maxOffset": str(len(messages)),
        }  # fmt: skip
        if offset > len(messages):
            fields["nextBeginOffset"] = str(len(messages))
            return request.answer(ResponseCode.PULL_OFFSET_MOVED, ext=fields)
        if found:
            return request.answer(ext=fields, body=b"".join(found))
        return None if self.answers_waiting_pulls else request.answer(19, ext=fields)

    def _asked(self, request: Command) -> set[MessageQueue]:
        return {MessageQueue.from_json(each) for each in fastjson.loads(request.body)["mqSet"]}

    def _lock(self, _: str, request: Command) -> Command:
        granted = self._asked(request) - self.others_locks
        self.locked |= granted
        names = [each._asdict() for each in sorted(granted)]
        return request.answer(body=fastjson.dumps({"lockOKMQSet": names}))

    def _unlock(self, _: str, request: Command) -> Command:
        self.locked -= self._asked(request)
        return request.answer()

    def _send_back(self, _: str, request: Command) -> Command:
        self.sent_back.append(request)
        return request.answer()
