from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.changes.groups import GroupWish, change, create, delete
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.admin.rocketmq.scripted import A, B, Scripted

PUT = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
ALL = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
KNOWN = {"groupName": "g", "retryMaxTimes": 3, "groupSysFlag": 1}


def servers(**more: Any) -> Scripted:
    return Scripted(
        {
            ALL: {"subscriptionGroupTable": {"g": KNOWN}},
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["%DLQ%g", "t"]},
            PUT: {},
            RequestCode.DELETE_SUBSCRIPTIONGROUP: {},
            RequestCode.DELETE_TOPIC_IN_BROKER: {},
            RequestCode.DELETE_TOPIC_IN_NAMESRV: {},
            **more,
        }
    )


def test_a_wish_over_what_a_broker_has_changes_what_it_names() -> None:
    config = GroupWish(group="g", consumes=False).over(KNOWN)
    assert (config["consumeEnable"], config["retryMaxTimes"], config["groupSysFlag"]) == (
        False, 3, 1,
    )  # fmt: skip
    new = GroupWish(group="n", retries=-1).over({})
    assert (new["groupName"], new["consumeEnable"], new["retryMaxTimes"]) == ("n", True, -1)


async def test_a_new_group_is_made_on_every_master() -> None:
    scripted = servers()
    assert await create(scripted, GroupWish(group="n")) == {"message": ""}
    assert {address for address, code, _ in scripted.asked if code == PUT} == {A, B}


async def test_a_broker_that_does_not_say_what_it_has_is_left_as_it_is() -> None:
    scripted = servers()
    scripted.answers[B, ALL] = Refused(1, "busy")
    done = await change(scripted, GroupWish(group="g", retries=5))
    assert done == {"message": "WARNING: broker b: CODE: 1  DESC: busy"}
    assert [address for address, code, _ in scripted.asked if code == PUT] == [A]


async def test_a_group_goes_with_its_offsets_retries_and_letters() -> None:
    scripted = servers()
    await delete(scripted, "g")
    asked = [(code, fields) for _, code, fields in scripted.asked]
    gone = [fields for code, fields in asked if code == RequestCode.DELETE_SUBSCRIPTIONGROUP]
    assert gone == [{"groupName": "g", "removeOffset": "true", "cleanOffset": "true"}] * 2
    topics = [fields for code, fields in asked if code == RequestCode.DELETE_TOPIC_IN_BROKER]
    assert topics == [{"topic": "%DLQ%g"}] * 2


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        (GroupWish(group="g"), 409, "GROUP_EXISTS"),
        (GroupWish(group="a b"), 400, "INVALID_GROUP"),
        (GroupWish(group="TOOLS_CONSUMER"), 400, "SYSTEM_GROUP"),
        (GroupWish(group="n", retries=-2), 400, "INVALID_RETRIES"),
        (GroupWish(group="n", retry_queues=-1), 400, "INVALID_RETRY_QUEUES"),
    ],
)
async def test_wishes_that_are_refused(wish: GroupWish, status: int, code: str) -> None:
    scripted = servers()
    with pytest.raises(ApiError, match=code) as refused:
        await create(scripted, wish)
    assert refused.value.status == status
    assert PUT not in {code for _, code, _ in scripted.asked}


async def test_a_group_of_tools_is_not_deleted() -> None:
    with pytest.raises(ApiError, match="SYSTEM_GROUP"):
        await delete(servers(), "TOOLS_CONSUMER")
