"""The questions that sub-commands have in common, over the client's blocking shell.

Addresses of brokers given on the command line need no name server; the name servers are asked only
by what needs them.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import MILLISECOND
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.network.name_servers import listed
from penstock.rocketmq.mqadmin.errors import CommandFailed, Refused
from penstock.rocketmq.mqadmin.topology import Clusters, TopicRoute
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

T = TypeVar("T")
RETRY: Final = "%RETRY%"
DLQ: Final = "%DLQ%"
TIMEOUT_S: Final = 5.0
LONG_TIMEOUT_S: Final = 15.0
"""The time-out of requests for which upstream waits three times as long."""
_NEVER_ASKED: Final = "127.0.0.1:9876"


class Admin:
    """One run of the tool."""

    def __init__(self, name_servers: str = "", config: Config | None = None) -> None:
        """Check the arguments. Raises ConfigError."""
        self._given = listed(name_servers or os.environ.get("NAMESRV_ADDR", ""))
        addresses = ";".join(self._given) or _NEVER_ASKED
        self.config = replace(config or Config(), namesrv_addr=addresses)
        self.hub = BlockingHub(self.config, SYSTEM_CLOCK, None)

    def close(self) -> None:
        """End the connections."""
        self.hub.close()

    @property
    def now_ms(self) -> int:
        """The time as messages have it."""
        return SYSTEM_CLOCK.wall_ns() // MILLISECOND

    @property
    def name_servers(self) -> list[str]:
        """The name servers in the order given. Raises CommandFailed where there are none."""
        if not self._given:
            raise CommandFailed(
                "no name server address: give it with -n host:9876, or set NAMESRV_ADDR"
            )
        return list(self._given)

    # --- asking ----------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The result of a coroutine of the client's core."""
        return self.hub.run(coroutine)

    def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        seconds: float = TIMEOUT_S,
    ) -> Command:
        """The answer of a server that has carried out a request. Raises Refused, ClientError."""
        answer = self.run(self.hub.ask(address, code, _texts(fields), body, seconds))
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark)
        return answer

    def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, object] | None = None
    ) -> Command:
        """The answer of the first name server that gives one. Raises Refused, ClientError."""
        assert self.name_servers
        answer = self.run(self.hub.name_servers.ask(code, _texts(fields) or {}))
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark)
        return answer

    def ask_json(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        seconds: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """The JSON object in the body of an answer."""
        return as_object(self.ask(address, code, fields, body, seconds))

    # --- what most sub-commands ask --------------------------------------------------------------

    def clusters(self) -> Clusters:
        """All clusters with their brokers."""
        answer = self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return Clusters.parse(as_object(answer))

    def route(self, topic: str) -> TopicRoute:
        """A topic's route."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        return TopicRoute.parse(as_object(answer))

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        found = as_object(self.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        return sorted(map(str, found.get("topicList") or ()))

    def runtime_info(self, address: str) -> dict[str, str]:
        """The figures of a broker."""
        found = self.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return {str(name): str(value) for name, value in (found.get("table") or {}).items()}

    def groups_of(self, topic: str) -> list[str]:
        """The groups that consume a topic, as the first of its brokers knows them."""
        for address in self.route(topic).addresses[:1]:
            found = self.ask_json(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
            return sorted(map(str, found.get("groupList") or ()))
        return []

    def connections(self, group: str, address: str = "") -> dict[str, Any]:
        """A group's consumers and subscriptions; of one of its brokers where none is given."""
        address = address or self.route(RETRY + group).addresses[0]
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        found = self.ask_json(address, code, {"consumerGroup": group})
        if not found.get("connectionSet"):
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE, "Not found the consumer group connection"
            )
        return found

    def running_info(self, group: str, client: str, *, jstack: bool = False) -> dict[str, Any]:
        """A consumer's own account of itself, asked for through the first broker of its group."""
        fields = {"consumerGroup": group, "clientId": client, "jstackEnable": str(jstack).lower()}
        address = self.route(RETRY + group).addresses[0]
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        return self.ask_json(address, code, fields, seconds=LONG_TIMEOUT_S)


def as_object(answer: Command) -> dict[str, Any]:
    """The JSON object in an answer's body. Raises CommandFailed."""
    found = fastjson.loads(answer.body) if answer.body else {}
    if not isinstance(found, dict):
        raise CommandFailed("the server's answer is no JSON object")
    return found


def _texts(fields: Mapping[str, object] | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in fields.items()} if fields else None
