"""Questions of nsqadmin to RocketMQ's name servers and brokers.

Only servers named on the command line, and brokers that these list, are ever connected to: an
address within a message id comes from a stranger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from penstock.cluster.errors import NoAnswerError
from penstock.cluster.fanout import Warnings
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.units import MILLISECOND
from penstock.net.address import split_host_port
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.network.name_servers import listed
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.mqadmin.topology import Broker, Clusters, TopicRoute
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

AskedT = TypeVar("AskedT")
T = TypeVar("T")
FLAG: Final = "--rocketmq-namesrv-address"
OPTION_FLAG: Final = "--rocketmq-client-opt"
ASKED_AT_ONCE: Final = 32
_TIMEOUT_S_MAX: Final = 300.0


class Servers:
    """The name servers, and the brokers behind them. Raises ConfigError."""

    def __init__(
        self,
        addresses: Iterable[str],
        options: Iterable[str],
        connect_s: float,
        request_s: float,
        clock: Clock,
    ) -> None:
        self.addresses = name_servers(addresses)
        given = _with_options(Config(namesrv_addr=";".join(self.addresses)), options)
        config = replace(
            given,
            connect_timeout=min(connect_s, _TIMEOUT_S_MAX),
            request_timeout=min(request_s, _TIMEOUT_S_MAX),
        )
        self.hub = AioHub(config, clock, None)
        self._clock = clock
        self._slots = asyncio.Semaphore(ASKED_AT_ONCE)

    @property
    def now_ms(self) -> int:
        """The time as messages have it."""
        return self._clock.wall_ns() // MILLISECOND

    async def close(self) -> None:
        """End the connections."""
        await self.hub.end()

    # --- asking ----------------------------------------------------------------------------------

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
    ) -> Command:
        """The answer of a server that has carried out a request. Raises Refused, ClientError."""
        texts = {name: str(value) for name, value in (fields or {}).items()}
        async with self._slots:
            answer = await self.hub.run(self.hub.ask(address, code, texts, body))
        return _successful(answer)

    async def ask_json(
        self, address: str, code: RequestCode, fields: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """The JSON object in the body of an answer."""
        return _object(await self.ask(address, code, fields))

    async def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The JSON of the first name server that answers. Raises Refused, NoAnswerError."""
        try:
            answer = await self.hub.run(self.hub.name_servers.ask(code, dict(fields or {})))
        except ClientError as error:
            raise NoAnswerError(f"failed to query any name server: {error}") from error
        return _object(_successful(answer))

    # --- what most pages need --------------------------------------------------------------------

    async def clusters(self) -> Clusters:
        """All clusters with their brokers. Raises NoAnswerError."""
        found = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return Clusters.parse(found)

    async def brokers(self) -> list[Broker]:
        """The brokers that have an address, by name."""
        return [each for each in (await self.clusters()).brokers.values() if each.any_address()]

    async def broker(self, name: str) -> Broker:
        """The broker of this name. Raises ApiError 404."""
        for each in await self.brokers():
            if each.name == name:
                return each
        raise ApiError(404, "BROKER_NOT_FOUND")

    async def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        found = await self.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(map(str, found.get("topicList") or ()))

    async def route(self, topic: str) -> TopicRoute:
        """A topic's brokers and queues. Raises ApiError 404 where no broker has it."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        try:
            found = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        except Refused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise ApiError(404, "TOPIC_NOT_FOUND") from None
            raise
        return TopicRoute.parse(found)


async def gathered(
    asked: Iterable[AskedT],
    ask: Callable[[AskedT], Awaitable[T]],
    warnings: Warnings,
    *,
    but: Iterable[int] = (),
) -> list[tuple[AskedT, T]]:
    """The answers of those that give one; the others are warnings, except for refusals with one of
    the codes in ``but``, which only say that there is nothing.
    """
    everybody = list(asked)
    outcomes = await asyncio.gather(*(_outcome(ask, each) for each in everybody))
    found, errors = [], []
    for each, outcome in zip(everybody, outcomes, strict=True):
        if not isinstance(outcome, PenstockError):
            found.append((each, outcome))
        elif not (isinstance(outcome, Refused) and outcome.code in set(but)):
            errors.append(
                f"{_name_of(each)}: {outcome}" if isinstance(outcome, Refused) else str(outcome)
            )
    warnings.add(dict.fromkeys(errors))
    return found


def _name_of(asked: object) -> str:
    return f"broker {asked.name}" if isinstance(asked, Broker) else str(asked)


async def _outcome(ask: Callable[[AskedT], Awaitable[T]], asked: AskedT) -> T | PenstockError:
    try:
        return await ask(asked)
    except PenstockError as error:
        return error
    except (AttributeError, KeyError, TypeError, ValueError):
        return ClientError("an answer makes no sense: is this a server of RocketMQ?")


def _successful(answer: Command) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(answer.code, answer.remark)
    return answer


def _object(answer: Command) -> dict[str, Any]:
    found = fastjson.loads(answer.body) if answer.body else {}
    if not isinstance(found, dict):
        raise ClientError("the answer is no JSON object: is this a server of RocketMQ?")
    return found


def name_servers(addresses: Iterable[str]) -> list[str]:
    """The addresses, each of which may be several with ``;`` between. Raises ConfigError."""
    try:
        found = listed(";".join(addresses))
    except ConfigError as error:
        raise ConfigError(f"{FLAG}: {error}") from None
    for each in found:
        host, _ = split_host_port(each)
        if not host:
            raise ConfigError(f"{FLAG} ({each}): missing host in address")
    return found


def _with_options(config: Config, options: Iterable[str]) -> Config:
    for each in options:
        name, comma, value = each.partition(",")
        try:
            config = config.with_option(name, value if comma else True)
        except ConfigError as error:
            raise ConfigError(f"{OPTION_FLAG} {name}: {error}") from None
    return config
