"""The registry of answers: a function for each request code, one concept a file.

A function marked with ``answers`` gets the controller, the connection and the request. It returns
the answer, or None when it sends one later or never. A coroutine function runs as a task and its
result is sent when it is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.core.errors import PenstockError
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.remoting import Connection

    Answerer = Callable[[Any, Connection, Command], Command | None]
    LaterAnswerer = Callable[[Any, Connection, Command], Awaitable[Command | None]]

Function = TypeVar("Function", bound=Callable[..., Any])

ANSWERERS: Final[dict[int, Answerer]] = {}
LATER_ANSWERERS: Final[dict[int, LaterAnswerer]] = {}


class RefusedError(PenstockError):
    """A request that is refused, with the code and the words of the answer."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


def answers(*codes: RequestCode) -> Callable[[Function], Function]:
    """Register a function, or coroutine function, for these codes."""

    def register(answerer: Function) -> Function:
        table: dict[int, Any] = (
            LATER_ANSWERERS if inspect.iscoroutinefunction(answerer) else ANSWERERS
        )
        for code in codes:
            assert code not in ANSWERERS.keys() | LATER_ANSWERERS.keys(), code
            table[code] = answerer
        return answerer

    return register


def json_answer(request: Command, value: Any) -> Command:
    """Success with a JSON body."""
    return request.answer(body=fastjson.dumps(value))
