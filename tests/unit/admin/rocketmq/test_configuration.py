from __future__ import annotations

from penstock.admin.rocketmq.configuration import HIDDEN, accounts, configuration
from penstock.core.gojson import dumps
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

from .scripted import A, B, Scripted

CODE = RequestCode.GET_BROKER_CONFIG
TOLD = Command(0, 0, None, b"listenPort=10911\ninitAuthenticationUser={x}\nsecretKey=\n")
ACCOUNTS = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
TOLD_ACCOUNTS = {
    "globalWhiteAddrs": ["10.0.0.*"],
    "plainAccessConfigs": [
        {"accessKey": "shop", "secretKey": "12345678", "admin": False, "topicPerms": ["t=PUB"],
         "password": "another"},
    ],
}  # fmt: skip


async def test_settings_by_name_and_no_secrets() -> None:
    refused = Refused(ResponseCode.NO_PERMISSION, "denied")
    found = await configuration(Scripted({(A, CODE): TOLD, (B, CODE): refused}))
    a, b = found["brokers"]
    assert (a["broker"], a["address"]) == ("a", A)
    assert a["settings"] == {
        "initAuthenticationUser": HIDDEN, "listenPort": "10911", "secretKey": "",
    }  # fmt: skip
    assert (b["settings"], b["reason"]) == (None, "denied")


async def test_a_broker_that_does_not_answer_says_why() -> None:
    found = await configuration(Scripted({CODE: NotConnected(A, "gone", "")}))
    assert [each["reason"] for each in found["brokers"]] == [f"{A}: gone"] * 2


async def test_accounts_have_no_secrets_whatever_a_broker_tells() -> None:
    refused = Refused(ResponseCode.SYSTEM_ERROR, "aclEnable is false")
    found = await accounts(Scripted({(A, ACCOUNTS): TOLD_ACCOUNTS, (B, ACCOUNTS): refused}))
    a, b = found["brokers"]
    assert (a["accounts"][0]["account"], a["accounts"][0]["topics"]) == ("shop", ["t=PUB"])
    assert a["trusted"] == ["10.0.0.*"]
    assert (b["accounts"], b["reason"]) == (None, "aclEnable is false")
    assert b"12345678" not in dumps(found)
    assert b"another" not in dumps(found)


async def test_a_broker_that_tells_no_accounts_says_why_and_hides_no_other() -> None:
    found = await accounts(
        Scripted({(A, ACCOUNTS): TOLD_ACCOUNTS, (B, ACCOUNTS): NotConnected(B, "refused")})
    )
    a, b = found["brokers"]
    assert (len(a["accounts"]), b["accounts"], b["reason"]) == (
        1,
        None,
        f"{B}: refused; {NotConnected.REMEDY}",
    )
