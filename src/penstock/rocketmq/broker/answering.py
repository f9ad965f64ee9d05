"""Answers to requests: methods marked with the codes that they answer, and the table of them.

A marked method gets the connection and the request. It returns the answer, or None when it sends
one later or never. A coroutine method runs as a task and its result is sent when it is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.core.errors import PenstockError
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.remoting import Connection

    Answerer = Callable[[Connection, Command], Command | None]
    LaterAnswerer = Callable[[Connection, Command], Awaitable[Command | None]]

Method = TypeVar("Method", bound=Callable[..., Any])

_CODES: Final = "_answered_codes"


class RefusedError(PenstockError):
    """A request that is refused, with the code and the words of the answer."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


def answers(*codes: RequestCode) -> Callable[[Method], Method]:
    """Mark a method, or coroutine method, as the answerer of these codes."""

    def mark(method: Method) -> Method:
        setattr(method, _CODES, codes)
        return method

    return mark


class AnswerTable:
    """The answerer of each request code, by whether it answers at once or as a task."""

    __slots__ = ("at_once", "later")

    def __init__(self, answerers: Iterable[object]) -> None:
        """``answerers`` are the objects with the marked methods; a code has one answerer."""
        self.at_once: dict[int, Answerer] = {}
        self.later: dict[int, LaterAnswerer] = {}
        for each in answerers:
            for name, function in vars(type(each)).items():
                if codes := getattr(function, _CODES, ()):
                    self._add(codes, getattr(each, name))

    def _add(self, codes: Sequence[int], answerer: Callable[..., Any]) -> None:
        table: dict[int, Any] = self.at_once
        if inspect.iscoroutinefunction(answerer):
            table = self.later
        for code in codes:
            assert code not in self.codes, code
            table[code] = answerer

    @property
    def codes(self) -> set[int]:
        """All codes that are answered."""
        return {*self.at_once, *self.later}


def json_answer(request: Command, value: Any) -> Command:
    """Success with a JSON body."""
    return request.answer(body=fastjson.dumps(value))
