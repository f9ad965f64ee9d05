"""The client of an administrator: requests to name servers and brokers, and what most of them need.

What is built on it awaits nothing but ``ask`` and ``ask_name_server``, so the same coroutines run
in a job of the blocking hub and, with ``run`` overridden, in tasks of an event loop.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Clusters, TopicRoute
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol import fastjson, requests
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.requests import Request

T = TypeVar("T")


class AdminClient:
    """Requests of an administrator.

    The time-outs, in seconds, are for a request and for one that upstream gives three times as
    long; None is the ``request_timeout`` of the configuration.
    """

    timeout_s: float | None = None
    long_timeout_s: float | None = None

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    @property
    def now_ms(self) -> int:
        """The time as messages have it."""
        return self.hub.now_ms

    # --- asking ----------------------------------------------------------------------------------

    async def run(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The result of a coroutine of the client's core."""
        return await coroutine

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
        """The answer of a server that has carried out a request. Raises Refused, ClientError."""
        request = Command(code, 0, _texts(fields), body, language=language)
        seconds = self.timeout_s if seconds is None else seconds
        return successful(await self.run(self._answer(address, request, seconds)))

    async def _answer(self, address: str, request: Command, seconds: float | None) -> Command:
        return await self.hub.asked(address, request, seconds)

    async def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """The answer of the first name server that gives one. Raises Refused, ClientError."""
        asking = self.hub.name_servers.ask(code, _texts(fields) or {}, body)
        return successful(await self.run(asking))

    async def ask_json(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """The JSON object in the body of an answer."""
        return as_object(await self.ask(address, code, fields, body, seconds=seconds))

    # --- what most commands and pages need -------------------------------------------------------

    async def clusters(self, name_server: str = "") -> Clusters:
        """All clusters with their brokers, as any or this name server knows them."""
        return Clusters.parse(as_object(await self._ask_any(name_server, requests.clusters())))

    async def topics(self, name_server: str = "") -> list[str]:
        """The names of all topics, sorted, as any or this name server knows them."""
        found = as_object(await self._ask_any(name_server, requests.topic_list()))
        return sorted(map(str, found.get("topicList") or ()))

    async def _ask_any(self, name_server: str, request: Request) -> Command:
        if name_server:
            return await self.ask(name_server, *request)
        return await self.ask_name_server(*request)

    async def route(self, topic: str) -> TopicRoute:
        """The brokers and queues of a topic."""
        answer = await self.ask_name_server(*requests.route(topic))
        return TopicRoute.parse(as_object(answer))


def successful(answer: Command) -> Command:
    """The answer, if the request was carried out. Raises Refused."""
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(answer.code, answer.remark)
    return answer


def as_object(answer: Command) -> dict[str, Any]:
    """The JSON object in an answer's body. Raises BadAnswer."""
    found = fastjson.loads(answer.body) if answer.body else {}
    if not isinstance(found, dict):
        raise BadAnswer("the answer is not a JSON object: is this a server of RocketMQ?")
    return found


def _texts(fields: Mapping[str, object] | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in fields.items()} if fields else None
