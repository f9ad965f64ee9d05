from __future__ import annotations

from penstock.admin.rocketmq.attention import attention
from penstock.admin.rocketmq.paces import Paces
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import A, B
from .test_groups import OFFLINE, servers


async def test_groups_letters_and_brokers_lead_to_their_pages() -> None:
    scripted = servers()
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    scripted.answers |= {
        (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): OFFLINE,
        (A, code): {"table": {}},
        (B, code): NotConnected(B, "refused"),
    }
    found = await attention(scripted, Paces())
    assert (found["topics"], found["groups"], found["lag"]) == (1, ["g"], 10)
    assert [(each["kind"], each["page"], each["names"]) for each in found["items"]] == [
        ("unattended", "rocketgroup", ["g"]),
        ("letters", "rockettopic", ["%DLQ%g"]),
        ("silent", "rocketbroker", ["b"]),
    ]
