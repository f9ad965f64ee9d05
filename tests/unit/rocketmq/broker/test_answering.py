from __future__ import annotations

import pytest

from penstock.rocketmq.broker import answering
from penstock.rocketmq.broker.answering import AnswerTable, RefusedError, answers
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command


class Pulls:
    @answers(RequestCode.PULL_MESSAGE)
    async def pull(self, connection: object, request: Command) -> None: ...

    def check(self) -> None: ...


class Sends:
    @answers(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    def send(self, connection: object, request: Command) -> None: ...


class OtherSends:
    @answers(RequestCode.SEND_MESSAGE)
    async def send(self, connection: object, request: Command) -> None: ...


def test_methods_and_coroutine_methods_have_tables_of_their_own() -> None:
    sends, pulls = Sends(), Pulls()
    table = AnswerTable((sends, pulls))
    assert table.at_once == {10: sends.send, 310: sends.send}
    assert table.at_once[10] is table.at_once[310]
    assert table.later == {11: pulls.pull}
    assert table.codes == {10, 310, 11}


def test_a_code_has_one_answerer() -> None:
    with pytest.raises(AssertionError):
        AnswerTable((Sends(), OtherSends()))


def test_a_refusal_carries_code_and_words() -> None:
    error = RefusedError(ResponseCode.NO_PERMISSION, "not you")
    assert (error.code, str(error)) == (16, "not you")


def test_a_json_answer() -> None:
    answer = answering.json_answer(Command(1, 7), {"a": {1: 2}})
    assert (answer.code, answer.opaque, answer.body) == (0, 7, b'{"a":{1:2}}')
