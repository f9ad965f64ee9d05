from __future__ import annotations

import pytest

from penstock.admin.rocketmq.brokers import cluster
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import NAME_SERVER, A, B, Scripted

FIGURES = {
    "brokerVersionDesc": "V5_3_1", "putTps": "1.5 2 3", "getTransferedTps": "NaN 1 1",
    "msgPutTotalTodayNow": "30", "msgPutTotalTodayMorning": "10",
    "commitLogDiskRatio": "0.8",
}  # fmt: skip


@pytest.mark.parametrize("name", ["getTransferedTps", "getTransferredTps"])
async def test_what_goes_out_has_two_names_and_may_be_nothing(name: str) -> None:
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    servers = Scripted({code: {"table": {name: "0.0 1.5"}}})
    assert [each["out"] for each in (await cluster(servers))["brokers"]] == [0.0, 0.0]


async def test_figures_of_those_that_answer_and_names_of_those_that_do_not() -> None:
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    servers = Scripted(
        {
            (A, code): {"table": FIGURES},
            (B, code): NotConnected(B, "refused"),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["t"]},
        }
    )
    found = await cluster(servers)
    assert found["name_servers"] == [
        {"address": NAME_SERVER, "answers": True, "verdicts": [], "brokers": 2, "topics": 1}
    ]
    good, bad = found["brokers"]
    assert (good["version"], good["in"], good["out"], good["in_today"]) == ("V5_3_1", 1.5, None, 20)
    assert (bad["broker"], bad["answers"], bad["in"]) == ("b", False, None)
    assert [each["kind"] for each in good["verdicts"] + bad["verdicts"]] == ["disk", "silent"]
    assert found["message"] == f"WARNING: {B}: refused; {NotConnected.REMEDY}"
