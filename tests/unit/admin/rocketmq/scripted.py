"""RocketMQ's servers as nsqadmin asks them, with answers that a test writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.admin.rocketmq.servers import Servers
from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

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
        self, code: RequestCode, fields: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return await self.ask_json(NAME_SERVER, code, fields)


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
