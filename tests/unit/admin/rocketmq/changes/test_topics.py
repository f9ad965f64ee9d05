from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.changes.topics import TopicWish, change, create, delete
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.admin.rocketmq.scripted import NAME_SERVER, A, B, Scripted, route

PUT = RequestCode.UPDATE_AND_CREATE_TOPIC
KNOWN = {"topicFilterType": "MULTI_TAG", "topicSysFlag": 2, "order": True}


def servers() -> Scripted:
    return Scripted(
        {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["t"]},
            RequestCode.GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"t": KNOWN}},
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(),
            PUT: {},
            RequestCode.DELETE_TOPIC_IN_BROKER: {},
            RequestCode.DELETE_TOPIC_IN_NAMESRV: {},
        }
    )


def done(scripted: Scripted, *codes: RequestCode) -> list[tuple[str, dict[str, Any]]]:
    return [(address, fields) for address, code, fields in scripted.asked if code in codes]


async def test_a_new_topic_is_made_on_every_master_or_on_those_named() -> None:
    scripted = servers()
    assert await create(scripted, TopicWish(topic="new", write_queues=2, perm=4)) == {"message": ""}
    (a, fields), (b, _) = done(scripted, PUT)
    assert {a, b} == {A, B}
    assert (fields["readQueueNums"], fields["writeQueueNums"], fields["perm"]) == (8, 2, 4)
    await create(scripted, TopicWish(topic="other", brokers=["b"]))
    assert [address for address, _ in done(scripted, PUT)][2:] == [B]


async def test_a_change_keeps_what_it_says_nothing_of() -> None:
    scripted = servers()
    await change(scripted, TopicWish(topic="t", brokers=["a"], read_queues=3))
    ((_, fields),) = done(scripted, PUT)
    assert (fields["readQueueNums"], fields["topicFilterType"]) == (3, "MULTI_TAG")
    assert (fields["topicSysFlag"], fields["order"]) == (2, "true")


async def test_a_change_leaves_each_broker_the_queues_that_it_has() -> None:
    scripted = servers()
    for address, queues in ((A, 4), (B, 16)):
        known = KNOWN | {"readQueueNums": queues, "writeQueueNums": queues - 1, "perm": 6}
        scripted.answers[address, RequestCode.GET_ALL_TOPIC_CONFIG] = {
            "topicConfigTable": {"t": known}
        }
    await change(scripted, TopicWish(topic="t", perm=4))
    assert [
        (address, fields["readQueueNums"], fields["writeQueueNums"], fields["perm"])
        for address, fields in done(scripted, PUT)
    ] == [(A, 4, 3, 4), (B, 16, 15, 4)]


async def test_brokers_delete_a_topic_before_name_servers_do() -> None:
    scripted = servers()
    await delete(scripted, "t")
    codes = RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV
    assert [address for address, _ in done(scripted, *codes)] == [A, B, NAME_SERVER]


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        (TopicWish(topic="t"), 409, "TOPIC_EXISTS"),
        (TopicWish(topic="a b"), 400, "INVALID_TOPIC"),
        (TopicWish(topic=""), 400, "INVALID_TOPIC"),
        (TopicWish(topic="n", read_queues=-1), 400, "INVALID_QUEUES"),
        (TopicWish(topic="n", write_queues=1025), 400, "INVALID_QUEUES"),
        (TopicWish(topic="n", perm=1), 400, "INVALID_PERM"),
        (TopicWish(topic="RMQ_SYS_TRACE_TOPIC"), 400, "SYSTEM_TOPIC"),
        (TopicWish(topic="C"), 400, "SYSTEM_TOPIC"),
        (TopicWish(topic="n", brokers=["nope"]), 404, "BROKER_NOT_FOUND"),
    ],
)
async def test_wishes_that_are_refused(wish: TopicWish, status: int, code: str) -> None:
    scripted = servers()
    with pytest.raises(ApiError, match=code) as refused:
        await create(scripted, wish)
    assert refused.value.status == status
    assert not done(scripted, PUT)


async def test_a_system_topic_is_not_deleted() -> None:
    scripted = servers()
    with pytest.raises(ApiError, match="SYSTEM_TOPIC"):
        await delete(scripted, "SCHEDULE_TOPIC_XXXX")
    assert not done(scripted, RequestCode.DELETE_TOPIC_IN_BROKER)
