from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.client import successful
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_topics_are_sorted() -> None:
    admin = FakeAdmin({Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["b", "a"]})})
    assert admin.do(admin.topics()) == ["a", "b"]


def test_an_answer_that_is_no_object_is_refused() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer([1])})
    with pytest.raises(BadAnswer, match="no JSON object"):
        admin.do(admin.ask_json(BROKER, Code.GET_BROKER_RUNTIME_INFO))


def test_a_refusal_has_the_code_and_the_words() -> None:
    with pytest.raises(Refused, match="CODE: 17  DESC: nobody has it"):
        successful(Command(0).answer(17, "nobody has it"))
