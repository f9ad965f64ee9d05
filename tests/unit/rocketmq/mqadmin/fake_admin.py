"""An `Admin` whose servers are a table of answers, and what sub-commands print with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from penstock.rocketmq.client.admin.client import successful
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import RESPONSE, Command, Language
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode

BROKER = "127.0.0.1:10911"
QUEUE = (("brokerName", "a"), ("queueId", 0), ("topic", "T"))
NAME_SERVER = "127.0.0.1:9876"
Answer = Command | Exception | Callable[[dict[str, Any]], Any]
Work = Callable[[Admin, ParsedOptions, Output], Coroutine[Any, None, None]]


def answer(body: Any = None, **ext: object) -> Command:
    """A success with this JSON and these fields."""
    fields = {name: str(value) for name, value in ext.items()}
    data = body if isinstance(body, bytes) else b"" if body is None else fastjson.dumps(body)
    return Command(0, 0, fields, data, RESPONSE)


def at_offset(consumer: int) -> dict[Any, dict[str, int]]:
    """A group's progress in the one queue, in which 9 messages are."""
    return {QUEUE: {"brokerOffset": 9, "consumerOffset": consumer, "lastTimestamp": 0}}


def stored(properties: str = "", body: bytes = b"body", topic: str = "T") -> StoredMessage:
    """A message at offset 3 of queue 0."""
    host = Host.parse(BROKER)
    return StoredMessage(topic, body, 0, 3, 9, host, host, 5, 6, properties)


def record(properties: str = "", body: bytes = b"body", topic: str = "T") -> bytes:
    """Its record."""
    return encode(stored(properties, body, topic))


DATA = {"brokerName": "a", "cluster": "C", "brokerAddrs": {0: BROKER}}
CLUSTERS = answer({"clusterAddrTable": {"C": ["a"]}, "brokerAddrTable": {"a": DATA}})
ROUTE = answer(
    {
        "brokerDatas": [DATA],
        "queueDatas": [
            {"brokerName": "a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
             "topicSysFlag": 0}
        ],
    }
)  # fmt: skip
STATS = answer({"consumeTps": 2.5, "offsetTable": at_offset(4)})


class FakeAdmin(Admin):
    """Answers by code: an answer, an error to raise, or a function of the request's fields."""

    def __init__(self, answers: Mapping[Code, Answer] | None = None) -> None:
        super().__init__(NAME_SERVER)
        self.close()
        self.answers: dict[Code, Answer] = {
            Code.GET_BROKER_CLUSTER_INFO: CLUSTERS, Code.GET_ROUTEINFO_BY_TOPIC: ROUTE,
            **(answers or {}),
        }  # fmt: skip
        self.language = Language.PYTHON
        self.asked: list[tuple[str, Code, dict[str, Any], bytes]] = []

    async def ask(
        self,
        address: str,
        code: Code,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
        language: Language = Language.PYTHON,
    ) -> Command:
        self.language = language
        given = dict(fields or {})
        self.asked.append((address, code, given, body))
        found = self.answers[code]
        if callable(found):
            found = found(given)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Command)
        return successful(found)

    async def ask_name_server(
        self, code: Code, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        return await self.ask(NAME_SERVER, code, fields, body)

    def fields(self, code: Code) -> list[dict[str, Any]]:
        """The fields of the requests with this code."""
        return [each[2] for each in self.asked if each[1] == code]


def printed(work: Work, admin: Admin, **given: str) -> str:
    """What a sub-command prints for people."""
    texts: list[str] = []
    admin.do(work(admin, ParsedOptions(given), Output(texts.append)))
    return "".join(texts)


def in_json(work: Work, admin: Admin, **given: str) -> dict[str, Any]:
    """What a sub-command prints as JSON."""
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    admin.do(work(admin, ParsedOptions(given), out))
    out.finish()
    found = json.loads("".join(texts))
    assert isinstance(found, dict)
    return found


async def interrupted(admin: object, seconds: float) -> NoReturn:
    """A pause between rounds in which somebody presses Ctrl-C."""
    raise KeyboardInterrupt
