from __future__ import annotations

import pytest

from penstock.rocketmq.broker import answering
from penstock.rocketmq.broker.answering import ANSWERERS, LATER_ANSWERERS, RefusedError, answers
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command


@pytest.fixture(autouse=True)
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "ANSWERERS", {})
    monkeypatch.setattr(answering, "LATER_ANSWERERS", {})


def test_functions_and_coroutine_functions_have_tables_of_their_own() -> None:
    @answers(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    def now(controller: object, connection: object, request: Command) -> None: ...

    @answers(RequestCode.PULL_MESSAGE)
    async def later(controller: object, connection: object, request: Command) -> None: ...

    assert {10: now, 310: now} == answering.ANSWERERS
    assert {11: later} == answering.LATER_ANSWERERS


def test_a_code_has_one_answerer() -> None:
    @answers(RequestCode.SEND_MESSAGE)
    def one(controller: object, connection: object, request: Command) -> None: ...

    with pytest.raises(AssertionError):

        @answers(RequestCode.SEND_MESSAGE)
        async def two(controller: object, connection: object, request: Command) -> None: ...


def test_a_refusal_carries_code_and_words() -> None:
    error = RefusedError(ResponseCode.NO_PERMISSION, "not you")
    assert (error.code, str(error)) == (16, "not you")


def test_a_json_answer() -> None:
    answer = answering.json_answer(Command(1, 7), {"a": {1: 2}})
    assert (answer.code, answer.opaque, answer.body) == (0, 7, b'{"a":{1:2}}')


def test_the_tables_are_filled_by_the_modules() -> None:
    from penstock.rocketmq.broker import processor

    assert processor.ANSWERING
    assert not ANSWERERS.keys() & LATER_ANSWERERS.keys()
    assert {10, 11, 34, 310, 320} <= ANSWERERS.keys() | LATER_ANSWERERS.keys()
