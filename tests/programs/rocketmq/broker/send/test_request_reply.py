"""The cases of `rocketmq/broker/send/test_request_reply.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.rocketmq.broker.peers import heartbeat
from tests.unit.rocketmq.broker.send.test_request_reply import TEXT
from tests.unit.rocketmq.raw_client import RawClient


def test_through_real_connections(connect: Callable[[], RawClient]) -> None:
    asker, answerer = connect(), connect()
    assert asker.ask(34, heartbeat("asker", producers=("PG",))).code == 0
    long = {
        "producerGroup": "PG", "topic": "DefaultCluster_REPLY_TOPIC", "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0,
        "properties": TEXT,
    }  # fmt: skip
    asked = answerer.begin(324, b"answer", **long)
    pushed = asker.asked(326)
    assert pushed.body == b"answer"
    assert pushed.ext is not None
    assert pushed.ext["bornHost"] == answerer.address
    asker.reply(pushed)
    answer = answerer.answer_to(asked)
    assert answer.code == 0
    assert answer.ext is not None
    assert len(answer.ext["msgId"]) == 32
