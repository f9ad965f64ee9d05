from __future__ import annotations

import pytest

from penstock.admin.rocketmq.offsets import preview, reset
from penstock.cluster.errors import NoAnswerError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.offsets import TO_THE_END
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

from .scripted import A, B, Scripted, bounds, progress, route

OFFLINE = Refused(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
UNKNOWN = Refused(ResponseCode.SYSTEM_ERROR, "THe consumer group <g> not exist")
FOUND = Command(0, 0, {"offset": "2"})
DONE = Command(0, 0)


def servers() -> Scripted:
    return Scripted(
        {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(),
            (A, RequestCode.GET_CONSUME_STATS): progress("a", 9, 4),
            (B, RequestCode.GET_CONSUME_STATS): {"offsetTable": {}},
            (B, RequestCode.GET_TOPIC_STATS_INFO): bounds("b", 3),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: FOUND,
            RequestCode.GET_MAX_OFFSET: Command(0, 0, {"offset": "3"}),
            (A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET): DONE,
            (B, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET): UNKNOWN,
            (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): {"connectionSet": [{"clientId": "c"}]},
            (B, RequestCode.GET_CONSUMER_CONNECTION_LIST): OFFLINE,
            RequestCode.UPDATE_CONSUMER_OFFSET: DONE,
        }
    )


def changes(scripted: Scripted) -> list[tuple[str, RequestCode]]:
    wanted = (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET)
    return sorted((address, code) for address, code, _ in scripted.asked if code in wanted)


async def test_a_preview_changes_nothing() -> None:
    scripted = servers()
    found = await preview(scripted, "g", "t", 1000)
    rows = [(each["broker"], each["committed"], each["wanted"]) for each in found["queues"]]
    assert rows == [("a", 4, 2), ("b", 0, 2)]
    assert changes(scripted) == []


async def test_the_end_is_asked_for_as_such() -> None:
    found = await preview(servers(), "g", "t", TO_THE_END)
    assert [each["wanted"] for each in found["queues"]] == [3, 3]


async def test_members_are_told_and_where_there_are_none_offsets_are_committed() -> None:
    scripted = servers()
    found = await reset(scripted, "g", "t", 1000)
    assert found["members_told"]
    assert changes(scripted) == [
        (A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET),
        (B, RequestCode.UPDATE_CONSUMER_OFFSET),
    ]


async def test_members_that_leave_meanwhile_are_none() -> None:
    scripted = servers()
    scripted.answers[A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = OFFLINE
    assert not (await reset(scripted, "g", "t", 1000))["members_told"]


async def test_nothing_changed_is_an_error_and_no_warning() -> None:
    scripted = servers()
    scripted.answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = Refused(1, "no")
    with pytest.raises(NoAnswerError, match="nothing was changed: broker a: CODE: 1"):
        await reset(scripted, "g", "t", 1000)
    assert changes(scripted) == []
