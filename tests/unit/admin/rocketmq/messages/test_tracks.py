from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.messages.tracks import tracks
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.ids import Host, OffsetId
from tests.unit.admin.rocketmq.scripted import A, Scripted, progress

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
