from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.messages.traces import trace, tracks
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.produce.trace import entry
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from tests.unit.admin.rocketmq.scripted import A, B, Scripted, progress, route

from .test_finding import found, message

ID = str(OffsetId(Host.parse(A), 1))
OFFLINE = Refused(ResponseCode.CONSUMER_NOT_ONLINE, "not online")


def online(kind: str = "CONSUME_PASSIVELY", *tags: str) -> dict[str, Any]:
    return {
        "connectionSet": [{"clientId": "c@1"}], "consumeType": kind,
        "subscriptionTable": {"t": {"topic": "t", "tagsSet": list(tags)}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("connections", "consumed", "state", "members"),
    [
        (online(), 2, "consumed", ["c@1"]),
        (online(), 1, "waits", ["c@1"]),
        (online("CONSUME_PASSIVELY", "other"), 2, "filtered", ["c@1"]),
        (online("CONSUME_ACTIVELY"), 2, "unknown", ["c@1"]),
        (OFFLINE, 2, "consumed", []),
        (OFFLINE, 1, "waits", []),
    ],
)
async def test_the_state_in_a_group(
    connections: object, consumed: int, state: str, members: list[str]
) -> None:
    servers = Scripted(
        {
            RequestCode.VIEW_MESSAGE_BY_ID: found(message(1, 10)),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": ["g"]},
            RequestCode.GET_CONSUMER_CONNECTION_LIST: connections,
            RequestCode.GET_CONSUME_STATS: progress("a", 9, consumed),
        }
    )
    told = await tracks(servers, "t", ID)
    assert told == {"groups": [{"group": "g", "state": state, "members": members}], "message": ""}


async def test_a_message_that_nobody_has() -> None:
    servers = Scripted({RequestCode.VIEW_MESSAGE_BY_ID: Refused(1, "gone")})
    with pytest.raises(ApiError, match="MESSAGE_NOT_FOUND"):
        await tracks(servers, "t", ID)


SENT = entry("Pub", 5, "R", "shop", "T", "U0,U1", "", "", "store:1", 4, 12, 0, "OFFSET", True)
ENDED = entry(
    "EndTransaction", 8, "R", "shop", "T", "U1", "", "", "h", 2, "tx", "COMMIT_MESSAGE", False
)
FAILED = entry("SubBefore", 20, "R", "billing", "r1", "U1", 0, "k") + entry(
    "SubAfter", "r1", "U1", 7, False, "k", 4
)
UNDER_WAY = entry("SubBefore", 30, "R", "billing", "r2", "U1", 1, "k")
TOPIC = "RMQ_SYS_TRACE_TOPIC"


def told(*bodies: str) -> Scripted:
    host = Host.parse(A)
    messages = [
        encode(StoredMessage(TOPIC, body.encode(), 0, at, at, host, host, 1, 2, "KEYS\1U1\2"))
        for at, body in enumerate(bodies)
    ]
    code = RequestCode.QUERY_MESSAGE
    answers = {(A, code): found(*messages), (B, code): found()}
    return Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: route(), **answers})


async def test_sends_and_tries_in_their_order_whoever_told_them_first() -> None:
    whole = await trace(told(UNDER_WAY, FAILED, ENDED, SENT), "U1")
    (sent,) = whole["sent"]
    assert (sent["group"], sent["client"], sent["store_host"], sent["cost_ms"]) == (
        "shop", "127.0.0.1", "store:1", 12,
    )  # fmt: skip
    assert [each["state"] for each in whole["ended"]] == ["COMMIT_MESSAGE"]
    tries = [(each["group"], each["retries"], each["ok"]) for each in whole["consumed"]]
    assert tries == [("billing", 0, False), ("billing", 1, None)]


async def test_where_no_broker_keeps_traces_there_are_none() -> None:
    gone = Refused(ResponseCode.TOPIC_NOT_EXIST, "no route")
    servers = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: gone})
    assert await trace(servers, "U1") == {"sent": [], "ended": [], "consumed": [], "message": ""}
