from __future__ import annotations

from penstock.admin.rocketmq.letters import Letters, all_letters
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode

from .scripted import A, B, Scripted, bounds


async def test_the_letters_of_each_group_are_those_of_all_brokers() -> None:
    code = RequestCode.GET_TOPIC_STATS_INFO
    servers = Scripted(
        {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["%DLQ%g", "t"]},
            (A, code): bounds("a", 3, topic="%DLQ%g"),
            (B, code): Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
        }
    )
    warnings = Warnings()
    found = await all_letters(servers, await servers.brokers(), warnings)
    assert (found, warnings.message) == ({"g": Letters(3, 5)}, "")
