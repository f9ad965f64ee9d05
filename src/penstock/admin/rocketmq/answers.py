"""Requests about RocketMQ read, and answers given, alike by all handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from penstock.admin.read_api import proper
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.rocketmq.client.admin.errors import AdminError
from penstock.rocketmq.client.admin.offsets import TO_THE_END
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.protocol.errors import BodyError

_TIME_MAX: Final = 1 << 53


def said(query: Query, name: str) -> str:
    """An argument as proper Unicode, which RocketMQ's JSON has to be; empty where there is none."""
    return proper(query.get(name) or "")


def required(value: str, name: str) -> str:
    """The value of an argument. Raises ApiError 400 where there is none."""
    if not value:
        raise ApiError(400, f"MISSING_ARG_{name.upper()}")
    return value


def time_of(text: str) -> int:
    """A time in ms since 1970, or -1 for the end of each queue. Raises ApiError 400."""
    if text == str(TO_THE_END):
        return TO_THE_END
    if not (text.isascii() and text.isdecimal()) or int(text) > _TIME_MAX:
        raise ApiError(400, "INVALID_TIME")
    return int(text)


def telling(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
    """The handler, with 502 for what a server refused or said that makes no sense."""

    async def answer(request: Request) -> Any:
        try:
            return await handler(request)
        except (ClientError, AdminError, BodyError) as error:
            raise ApiError(502, f"UPSTREAM_ERROR: {error}") from error

    return answer
