"""RocketMQ's servers as nsqadmin asks them, with answers that a test writes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from penstock.admin.rocketmq.servers import Servers
from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode

A, B = "127.0.0.1:10911", "127.0.0.1:10921"
NAME_SERVER = "127.0.0.1:9876"


class Scripted(Servers):
    """`answers` are by code, or by address and code: JSON, a Command, or an exception."""

    def __init__(self, answers: Mapping[Any, Any] | None = None) -> None:
        super().__init__([NAME_SERVER], [], 1.0, 1.0, SYSTEM_CLOCK)
        self.answers = {RequestCode.GET_BROKER_CLUSTER_INFO: two_brokers(), **(answers or {})}
        self.asked: list[tuple[str, RequestCode, dict[str, Any]]] = []

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
        language: Language = Language.PYTHON,
    ) -> Command:
        self.asked.append((address, code, dict(fields or {})))
        found = self.answers.get((address, code), self.answers.get(code))
        if found is None:
            raise Refused(1, f"no answer to {code.name}")
        if isinstance(found, Exception):
            raise found
        if isinstance(found, Command):
            return found
        return Command(0, 0, None, fastjson.dumps(found))

    async def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        return await self.ask(NAME_SERVER, code, fields, body)


class Keeping(Scripted):
    """Brokers a and b with a queue of the topic each, of which they give COUNT messages or NBYTES
    at once. `kept` are the times at which messages of `size` bytes were stored, by address.
    """

    COUNT, NBYTES = 32, 2000

    def __init__(self, kept: Mapping[str, list[int]], size: int = 3) -> None:
        super().__init__({RequestCode.GET_ROUTEINFO_BY_TOPIC: route()})
        self._kept, self._size = kept, size
        self.lost = range(0)

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
        language: Language = Language.PYTHON,
    ) -> Command:
        times, given = self._kept.get(address, []), dict(fields or {})

        def number(name: str) -> int:
            return int(str(given.get(name, 0)))

        if code == RequestCode.PULL_MESSAGE:
            self.asked.append((address, code, given))
            return self._pulled(address, number("queueOffset"), number("maxMsgNums"))
        offsets = {
            RequestCode.GET_MIN_OFFSET: 0,
            RequestCode.GET_MAX_OFFSET: len(times),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: bisect_left(times, number("timestamp")),
        }
        if code in offsets:
            return Command(0, 0, {"offset": str(offsets[code])})
        return await super().ask(address, code, fields, body)

    def _pulled(self, address: str, start: int, most: int) -> Command:
        places = range(start, min(start + min(most, self.COUNT), len(self._kept[address])))
        frames, nbytes = list[bytes](), 0
        for place in (each for each in places if each not in self.lost):
            frame = stored(address, place, self._kept[address][place], b"x" * self._size)
            nbytes += len(frame)
            if frames and nbytes > self.NBYTES:
                break
            frames.append(frame)
        if not frames:
            raise Refused(ResponseCode.PULL_NOT_FOUND, "nothing there")
        return Command(0, 0, None, b"".join(frames))


def stored(address: str, place: int, ms: int, body: bytes) -> bytes:
    """A message as a broker keeps it."""
    host = Host.parse(address)
    text = f"UNIQ_KEY\1{address}/{place}\2"
    return encode(StoredMessage("t", body, 0, place, place, host, host, ms, ms, text))


def two_brokers() -> dict[str, Any]:
    """How a name server tells of brokers a and b."""
    return {
        "brokerAddrTable": {
            name: {"brokerName": name, "cluster": "C", "brokerAddrs": {0: address}}
            for name, address in (("a", A), ("b", B))
        },
        "clusterAddrTable": {"C": ["a", "b"]},
    }


def route(perm: int = 6) -> dict[str, Any]:
    """The route of a topic with a queue on each broker."""
    return {
        "brokerDatas": list(two_brokers()["brokerAddrTable"].values()),
        "queueDatas": [
            {
                "brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": perm,
                "topicSysFlag": 0,
            }
            for name in ("a", "b")
        ],
    }  # fmt: skip


def bounds(broker: str, end: int, *, topic: str = "t") -> dict[str, Any]:
    """The bounds of a topic with one queue."""
    queue = {"brokerName": broker, "queueId": 0, "topic": topic}
    return {"offsetTable": _keyed(queue, {"minOffset": 0, "maxOffset": end,
                                          "lastUpdateTimestamp": 5})}  # fmt: skip


def progress(broker: str, end: int, at: int, *, topic: str = "t") -> dict[str, Any]:
    """A group in a topic with one queue."""
    queue = {"brokerName": broker, "queueId": 0, "topic": topic}
    figures = {"brokerOffset": end, "consumerOffset": at, "lastTimestamp": 7}
    return {"consumeTps": 1.0, "offsetTable": _keyed(queue, figures)}


def _keyed(queue: dict[str, Any], value: Any) -> dict[Any, Any]:
    """Maps with objects as keys, as fastjson has them."""
    from penstock.rocketmq.protocol.message_queue import MessageQueue

    return {MessageQueue.from_json(queue): value}
