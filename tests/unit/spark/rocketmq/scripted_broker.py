"""A broker and name server in a thread: as little a pull as from Java's, refusals on demand."""

from __future__ import annotations

import itertools
import json
import socketserver
import threading
from collections.abc import Iterable
from typing import Any

from penstock.rocketmq.protocol import fastjson, frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode, encode

NAME = "broker-s"
STORED_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_HOST = Host(b"\x7f\x00\x00\x01", 10911)


def stored(queue: int, offset: int, body: bytes, sys_flag: int = 0, **named: str) -> bytes:
    """A stored message; one is stored each second."""
    ms = STORED_MS + 1000 * offset
    text = properties.join(named)
    return encode(
        StoredMessage(
            "t", body, queue, offset, 0, _HOST, _HOST, ms - 7, ms, text, sys_flag=sys_flag
        )
    )


class ScriptedQueue:
    """Messages from offset ``start`` on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.start = 0
        self.frames: list[bytes] = []

    @property
    def end(self) -> int:
        return self.start + len(self.frames)

    def append(self, bodies: Iterable[bytes], sys_flag: int = 0, **named: str) -> None:
        for body in bodies:
            self.frames.append(stored(self.number, self.end, body, sys_flag, **named))

    def expire(self, count: int) -> None:
        """Let go of the first messages."""
        del self.frames[:count]
        self.start += count


class ScriptedBroker:
    """Use as a context manager; ``address`` is both the broker's and the name server's."""

    def __init__(self, per_pull: int = 32) -> None:
        self.per_pull = per_pull
        self.topics: dict[str, dict[int, ScriptedQueue]] = {}
        self.refuse: dict[int, tuple[int, str]] = {}
        """Answers to requests by their code, in place of the right ones."""
        self.last_of_older = True
        """True if a search by time tells the last message where all are older, as 4.9 does."""
        self.committed: dict[tuple[str, str, int], int] = {}
        self.beats: list[Any] = []
        self.requests: list[Command] = []
        self.connections = 0
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> ScriptedBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def queue(self, topic: str = "t", number: int = 0) -> ScriptedQueue:
        """A queue of a topic, made if it is not there."""
        return self.topics.setdefault(topic, {}).setdefault(number, ScriptedQueue(number))

    def pulls(self) -> list[int]:
        """The offsets that were asked for."""
        return [each.int64("queueOffset") for each in self._asked(RequestCode.PULL_MESSAGE)]

    def commits(self) -> list[int]:
        """The queues whose offsets were to be stored."""
        return [each.int32("queueId") for each in self._asked(RequestCode.UPDATE_CONSUMER_OFFSET)]

    def _asked(self, code: RequestCode) -> list[Command]:
        return [request for request in self.requests if request.code == code]

    def answer(self, request: Command) -> Command:
        self.requests.append(request)
        if request.code in self.refuse:
            return request.answer(*self.refuse[request.code], ext={})
        topic = request.optional("topic") or ""
        if request.code == RequestCode.HEART_BEAT:
            self.beats.append(json.loads(request.body))
            return request.answer()
        if request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            names = [*self.topics, NAME, "%RETRY%g", "TBW102"]
            return request.answer(body=fastjson.dumps({"topicList": names}))
        if request.code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
            return request.answer(body=fastjson.dumps({"topicList": [NAME]}))
        if request.code == RequestCode.GET_ALL_TOPIC_CONFIG:
            table = {name: {"topicName": name} for name in self.topics}
            return request.answer(body=fastjson.dumps({"topicConfigTable": table}))
        if topic not in self.topics:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist", ext={})
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return request.answer(body=fastjson.dumps(self._route()))
        if request.code == RequestCode.GET_TOPIC_STATS_INFO:
            return request.answer(body=fastjson.dumps({"offsetTable": self._stats(topic)}))
        return self._of_queue(request, topic, self.topics[topic][request.int32("queueId")])

    def _route(self) -> Any:
        queue = {"brokerName": NAME, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}
        broker = {"brokerAddrs": {0: self.address, 1: "127.0.0.1:9"}, "brokerName": NAME}
        return {"brokerDatas": [broker], "queueDatas": [queue]}

    def _stats(self, topic: str) -> dict[MessageQueue, dict[str, int]]:
        return {
            MessageQueue(NAME, queue.number, topic): {
                "lastUpdateTimestamp": 0, "maxOffset": queue.end, "minOffset": queue.start,
            }
            for queue in self.topics[topic].values()
        }  # fmt: skip

    def _of_queue(self, request: Command, topic: str, queue: ScriptedQueue) -> Command:
        if request.code == RequestCode.PULL_MESSAGE:
            return self._pull(request, queue)
        if request.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            key = topic, request.text("consumerGroup"), queue.number
            self.committed[key] = request.int64("commitOffset")
            return request.answer(ext={})
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
            assert request.text("setZeroIfNotFound") == "false"
            offset = self.committed.get((topic, request.text("consumerGroup"), queue.number))
            if offset is None:
                return request.answer(ResponseCode.QUERY_NOT_FOUND, "not found", ext={})
            return request.answer(ext={"offset": str(offset)})
        assert request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        times = (decode(frame)[0].store_ms for frame in queue.frames)
        younger = itertools.dropwhile(lambda at: at[1] < request.int64("timestamp"),
                                      enumerate(times, queue.start))  # fmt: skip
        older = queue.end - 1 if self.last_of_older and queue.frames else queue.end
        return request.answer(ext={"offset": str(next(younger, (older, 0))[0])})

    def _pull(self, request: Command, queue: ScriptedQueue) -> Command:
        offset = request.int64("queueOffset")
        count = min(self.per_pull, request.int32("maxMsgNums"))
        taken = queue.frames[offset - queue.start :][:count] if offset >= queue.start else []
        code, next_offset = ResponseCode.SUCCESS, offset + len(taken)
        if not queue.start <= offset <= queue.end:
            code, taken = ResponseCode.PULL_OFFSET_MOVED, []
            next_offset = queue.start if offset < queue.start else queue.end
        elif offset == queue.end:
            code = ResponseCode.PULL_NOT_FOUND
        ext = {"nextBeginOffset": next_offset, "minOffset": queue.start, "maxOffset": queue.end}
        fields = {name: str(value) for name, value in ext.items()} | {"suggestWhichBrokerId": "0"}
        return request.answer(code, ext=fields, body=b"".join(taken))

    def _handler(scripted) -> type[socketserver.BaseRequestHandler]:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                scripted.connections += 1
                reader = frames.FrameReader()
                while data := self.request.recv(65536):
                    reader.feed(data)
                    while (request := reader.next_command()) is not None:
                        # Brokers ask their clients, too.
                        asked = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=2)
                        answer = frames.encode(scripted.answer(request))
                        self.request.sendall(frames.encode(asked) + answer)

        return Handler
