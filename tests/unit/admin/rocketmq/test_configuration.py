from __future__ import annotations

from penstock.admin.rocketmq.configuration import HIDDEN, configuration
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

from .scripted import A, B, Scripted

CODE = RequestCode.GET_BROKER_CONFIG
TOLD = Command(0, 0, None, b"listenPort=10911\ninitAuthenticationUser={x}\nsecretKey=\n")


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
