from __future__ import annotations

from penstock.admin.rocketmq.attention import attention
from penstock.admin.rocketmq.paces import Paces
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import A, B
from .test_beside import beside
from .test_groups import OFFLINE, servers


async def test_groups_letters_and_brokers_lead_to_their_pages() -> None:
    scripted = servers()
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    scripted.answers |= {
        (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): OFFLINE,
        (A, code): {"table": {"putTps": "20.0 1 1", "getTransferedTps": "18.5 1 1"}},
        (B, code): NotConnected(B, "refused"),
    }
    found = await attention(scripted, Paces(), beside(scripted))
    assert (found["topics"], found["groups"], found["lag"]) == (1, ["g"], 10)
    assert [(each["kind"], each["page"], each["names"]) for each in found["items"]] == [
        ("unattended", "rocketgroup", ["g"]),
        ("letters", "rockettopic", ["%DLQ%g"]),
        ("silent", "rocketbroker", ["b"]),
    ]
    assert [each.get("topics") for each in found["items"]] == [["t"], ["t"], None]
    assert found["beside"] == {"brokers": ["a", "b"], "topics": ["t"], "in": 20.0, "out": 18.5}


async def test_a_broker_that_is_a_node_is_none_beside_the_nodes() -> None:
    scripted = servers()
    scripted.answers[RequestCode.GET_BROKER_RUNTIME_INFO] = {"table": {"putTps": "7 7 7"}}
    found = await attention(scripted, Paces(), beside(scripted, rocketmq=10911))
    assert (found["beside"]["brokers"], found["beside"]["in"]) == (["b"], 7)
    both = beside(scripted, rocketmq=10911, other=10921)
    found = await attention(scripted, Paces(), both)
    assert found["beside"] == {"brokers": [], "topics": [], "in": 0.0, "out": 0.0}
