"""Questions of nsqadmin to RocketMQ's name servers and brokers.

Only servers named on the command line, and brokers that these list, are ever connected to: an
address within a message id comes from a stranger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from penstock.admin.rocketmq.queue_rates import QueueRates
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, PenstockError
from penstock.net.address import split_host_port
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker, TopicRoute
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.network.name_servers import listed
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

AskedT = TypeVar("AskedT")
T = TypeVar("T")
FLAG: Final = "--rocketmq-namesrv-address"
OPTION_FLAG: Final = "--rocketmq-client-opt"
ASKED_AT_ONCE: Final = 32
_TIMEOUT_S_MAX: Final = 300.0


class Servers(AdminClient):
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
            # nsqadmin's time-outs may be set to hours, which the client library refuses.
            connect_timeout=min(connect_s, _TIMEOUT_S_MAX),
            request_timeout=min(request_s, _TIMEOUT_S_MAX),
        )
        self._loop_hub = AioHub(config, clock, None)
        super().__init__(self._loop_hub)
        self._slots = asyncio.Semaphore(ASKED_AT_ONCE)
        self.queue_rates = QueueRates()

    async def close(self) -> None:
        """End the connections."""
        await self._loop_hub.end()

    # --- asking ----------------------------------------------------------------------------------

    async def run(self, coroutine: Coroutine[Any, None, T]) -> T:
        try:
            # A page may need thousands of answers; no more than these are asked for at a time.
            async with self._slots:
                return await self._loop_hub.run(coroutine)
        finally:
            coroutine.close()  # it never began if its caller was cancelled before there was a slot

    async def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """The answer of the first name server that gives one. Raises Refused, NoAnswerError."""
        try:
            return await super().ask_name_server(code, fields, body)
        except ClientError as error:
            raise NoAnswerError(f"failed to query any name server: {error}") from error

    # --- what most pages need --------------------------------------------------------------------

    async def brokers(self) -> list[Broker]:
        """The brokers that have an address, by name."""
        return [each for each in (await self.clusters()).brokers.values() if each.any_address()]

    async def broker(self, name: str) -> Broker:
        """The broker of this name. Raises ApiError 404."""
        for each in await self.brokers():
            if each.name == name:
                return each
        raise ApiError(404, "BROKER_NOT_FOUND")

    async def route(self, topic: str) -> TopicRoute:
        """A topic's brokers and queues. Raises ApiError 404 where no broker has it."""
        try:
            return await super().route(topic)
        except Refused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise ApiError(404, "TOPIC_NOT_FOUND") from None
            raise


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
    # The answer is parsed within ``ask``: what it lacks shows as one of these.
    except (AttributeError, KeyError, TypeError, ValueError):
        return ClientError("an answer makes no sense: is this a server of RocketMQ?")


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
