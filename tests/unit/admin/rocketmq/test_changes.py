"""Changes of topics and groups go to the brokers that they concern, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.changes import group_changes, topic_changes
from penstock.admin.rocketmq.changes.group_changes import GroupChange
from penstock.admin.rocketmq.changes.masters import chosen_masters, told_all
from penstock.admin.rocketmq.changes.topic_changes import TopicChange
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.admin.rocketmq.scripted import NAME_SERVER, A, B, Scripted, route


async def test_brokers_are_chosen_by_name_and_all_without_names() -> None:
    servers = Scripted()
    assert [each.name for each in await chosen_masters(servers, ())] == ["a", "b"]
    assert [each.name for each in await chosen_masters(servers, ["b", "b"])] == ["b"]
    with pytest.raises(ApiError, match="BROKER_NOT_FOUND"):
        await chosen_masters(servers, ["a", "nope"])


async def test_one_that_refuses_is_a_warning_and_all_that_refuse_are_an_error() -> None:
    brokers = await Scripted().brokers()
    warnings = Warnings()

    async def only_a(broker: Broker) -> None:
        if broker.name != "a":
            raise Refused(16, "no permission")

    await told_all(brokers, only_a, warnings)
    assert warnings.message == "WARNING: broker b: CODE: 16  DESC: no permission"
    with pytest.raises(NoAnswerError, match="nothing was changed: broker b: CODE: 16"):
        await told_all(brokers[1:], only_a, Warnings())
    with pytest.raises(NoAnswerError, match="there is no master"):
        await told_all([], only_a, Warnings())


PUT_TOPIC = RequestCode.UPDATE_AND_CREATE_TOPIC
PUT_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
ALL = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
KNOWN_TOPIC = {"topicFilterType": "MULTI_TAG", "topicSysFlag": 2, "order": True}
KNOWN_GROUP = {"groupName": "g", "retryMaxTimes": 3, "groupSysFlag": 1}


def servers() -> Scripted:
    done = (
        PUT_TOPIC,
        PUT_GROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
    )
    return Scripted(
        {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["%DLQ%g", "t"]},
            RequestCode.GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"t": KNOWN_TOPIC}},
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(),
            ALL: {"subscriptionGroupTable": {"g": KNOWN_GROUP}},
            **{code: {} for code in done},
        }
    )


def done(scripted: Scripted, *codes: RequestCode) -> list[tuple[str, dict[str, Any]]]:
    return [(address, fields) for address, code, fields in scripted.asked if code in codes]


async def test_a_new_topic_is_made_on_every_master_or_on_those_named() -> None:
    scripted = servers()
    assert await topic_changes.create(
        scripted, TopicChange(topic="new", write_queues=2, perm=4)
    ) == {"message": ""}
    (a, fields), (b, _) = done(scripted, PUT_TOPIC)
    assert {a, b} == {A, B}
    assert (fields["readQueueNums"], fields["writeQueueNums"], fields["perm"]) == (8, 2, 4)
    await topic_changes.create(scripted, TopicChange(topic="other", brokers=["b"]))
    assert [address for address, _ in done(scripted, PUT_TOPIC)][2:] == [B]


async def test_a_change_keeps_what_it_says_nothing_of() -> None:
    scripted = servers()
    await topic_changes.change(scripted, TopicChange(topic="t", brokers=["a"], read_queues=3))
    ((_, fields),) = done(scripted, PUT_TOPIC)
    assert (fields["readQueueNums"], fields["topicFilterType"]) == (3, "MULTI_TAG")
    assert (fields["topicSysFlag"], fields["order"]) == (2, "true")


async def test_a_change_leaves_each_broker_the_queues_that_it_has() -> None:
    scripted = servers()
    for address, queues in ((A, 4), (B, 16)):
        known = KNOWN_TOPIC | {"readQueueNums": queues, "writeQueueNums": queues - 1, "perm": 6}
        scripted.answers[address, RequestCode.GET_ALL_TOPIC_CONFIG] = {
            "topicConfigTable": {"t": known}
        }
    await topic_changes.change(scripted, TopicChange(topic="t", perm=4))
    assert [
        (address, fields["readQueueNums"], fields["writeQueueNums"], fields["perm"])
        for address, fields in done(scripted, PUT_TOPIC)
    ] == [(A, 4, 3, 4), (B, 16, 15, 4)]


async def test_brokers_delete_a_topic_before_name_servers_do() -> None:
    scripted = servers()
    await topic_changes.delete(scripted, "t")
    codes = RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV
    assert [address for address, _ in done(scripted, *codes)] == [A, B, NAME_SERVER]


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        (TopicChange(topic="t"), 409, "TOPIC_EXISTS"),
        (TopicChange(topic="a b"), 400, "INVALID_TOPIC"),
        (TopicChange(topic=""), 400, "INVALID_TOPIC"),
        (TopicChange(topic="n", read_queues=-1), 400, "INVALID_QUEUES"),
        (TopicChange(topic="n", write_queues=1025), 400, "INVALID_QUEUES"),
        (TopicChange(topic="n", perm=1), 400, "INVALID_PERM"),
        (TopicChange(topic="RMQ_SYS_TRACE_TOPIC"), 400, "SYSTEM_TOPIC"),
        (TopicChange(topic="C"), 400, "SYSTEM_TOPIC"),
        (TopicChange(topic="n", brokers=["nope"]), 404, "BROKER_NOT_FOUND"),
        (GroupChange(group="g"), 409, "GROUP_EXISTS"),
        (GroupChange(group="a b"), 400, "INVALID_GROUP"),
        (GroupChange(group="TOOLS_CONSUMER"), 400, "SYSTEM_GROUP"),
        (GroupChange(group="n", retries=-2), 400, "INVALID_RETRIES"),
        (GroupChange(group="n", retry_queues=-1), 400, "INVALID_RETRY_QUEUES"),
    ],
)
async def test_wishes_that_are_refused(
    wish: TopicChange | GroupChange, status: int, code: str
) -> None:
    scripted = servers()
    create: Any = topic_changes.create if isinstance(wish, TopicChange) else group_changes.create
    with pytest.raises(ApiError, match=code) as refused:
        await create(scripted, wish)
    assert refused.value.status == status
    assert done(scripted, PUT_TOPIC, PUT_GROUP) == []


async def test_what_belongs_to_the_system_or_to_tools_is_not_deleted() -> None:
    scripted = servers()
    with pytest.raises(ApiError, match="SYSTEM_TOPIC"):
        await topic_changes.delete(scripted, "SCHEDULE_TOPIC_XXXX")
    with pytest.raises(ApiError, match="SYSTEM_GROUP"):
        await group_changes.delete(scripted, "TOOLS_CONSUMER")
    deletions = RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_SUBSCRIPTIONGROUP
    assert done(scripted, *deletions) == []


def test_a_wish_over_what_a_broker_has_changes_what_it_names() -> None:
    config = GroupChange(group="g", consumes=False).over(KNOWN_GROUP)
    assert (config["consumeEnable"], config["retryMaxTimes"], config["groupSysFlag"]) == (
        False, 3, 1,
    )  # fmt: skip
    new = GroupChange(group="n", retries=-1).over({})
    assert (new["groupName"], new["consumeEnable"], new["retryMaxTimes"]) == ("n", True, -1)


async def test_a_new_group_is_made_on_every_master() -> None:
    scripted = servers()
    assert await group_changes.create(scripted, GroupChange(group="n")) == {"message": ""}
    assert [address for address, _ in done(scripted, PUT_GROUP)] == [A, B]


async def test_a_broker_that_does_not_say_what_it_has_is_left_as_it_is() -> None:
    scripted = servers()
    scripted.answers[B, ALL] = Refused(1, "busy")
    told = await group_changes.change(scripted, GroupChange(group="g", retries=5))
    assert told == {"message": "WARNING: broker b: CODE: 1  DESC: busy"}
    assert [address for address, _ in done(scripted, PUT_GROUP)] == [A]


async def test_a_group_goes_with_its_offsets_retries_and_letters() -> None:
    scripted = servers()
    await group_changes.delete(scripted, "g")
    gone = {"groupName": "g", "removeOffset": "true", "cleanOffset": "true"}
    assert done(scripted, RequestCode.DELETE_SUBSCRIPTIONGROUP) == [(A, gone), (B, gone)]
    letters = {"topic": "%DLQ%g"}
    assert done(scripted, RequestCode.DELETE_TOPIC_IN_BROKER) == [(A, letters), (B, letters)]
