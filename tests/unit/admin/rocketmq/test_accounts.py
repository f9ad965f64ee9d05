from __future__ import annotations

from penstock.admin.rocketmq.accounts import accounts
from penstock.core.gojson import dumps
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode

from .scripted import A, B, Scripted

CODE = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
TOLD = {
    "globalWhiteAddrs": ["10.0.0.*"],
    "plainAccessConfigs": [
        {"accessKey": "shop", "secretKey": "12345678", "admin": False, "topicPerms": ["t=PUB"],
         "password": "another"},
    ],
}  # fmt: skip


async def test_accounts_have_no_secrets_whatever_a_broker_tells() -> None:
    refused = Refused(ResponseCode.SYSTEM_ERROR, "aclEnable is false")
    found = await accounts(Scripted({(A, CODE): TOLD, (B, CODE): refused}))
    a, b = found["brokers"]
    assert (a["accounts"][0]["account"], a["accounts"][0]["topics"]) == ("shop", ["t=PUB"])
    assert a["trusted"] == ["10.0.0.*"]
    assert (b["accounts"], b["reason"]) == (None, "aclEnable is false")
    assert b"12345678" not in dumps(found)
    assert b"another" not in dumps(found)


async def test_a_broker_that_does_not_answer_says_why_and_hides_no_other() -> None:
    found = await accounts(Scripted({(A, CODE): TOLD, (B, CODE): NotConnected(B, "refused")}))
    a, b = found["brokers"]
    assert (len(a["accounts"]), b["accounts"], b["reason"]) == (
        1,
        None,
        f"{B}: refused; {NotConnected.REMEDY}",
    )
