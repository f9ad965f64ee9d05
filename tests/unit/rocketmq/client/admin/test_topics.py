from __future__ import annotations

from penstock.rocketmq.client.admin.topics import (
    consume_queue,
    delete_topic,
    forget_topic,
    groups_of,
    put_topic,
    system_topics,
    topic_configs,
    topic_fields,
    topic_stats,
)
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    NAME_SERVER,
    QUEUE,
    FakeAdmin,
    answer,
)

BOUNDS = {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}


def test_bounds_by_queue() -> None:
    admin = FakeAdmin({Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {QUEUE: BOUNDS}})})
    assert admin.do(topic_stats(admin, BROKER, "T")) == {MessageQueue("a", 0, "T"): BOUNDS}


def test_groups_are_sorted() -> None:
    admin = FakeAdmin({Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["h", "g"]})})
    assert admin.do(groups_of(admin, BROKER, "T")) == ["g", "h"]


def test_topics_are_made_and_deleted() -> None:
    codes = [
        Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER, Code.DELETE_TOPIC_IN_NAMESRV,
    ]  # fmt: skip
    admin = FakeAdmin({code: answer() for code in codes})
    admin.do(put_topic(admin, BROKER, topic_fields("T", 4, 8, 6, 1, is_order=True)))
    admin.do(delete_topic(admin, BROKER, "T"))
    admin.do(forget_topic(admin, NAME_SERVER, "T"))
    admin.do(forget_topic(admin, NAME_SERVER, "T", "C"))
    made = {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 8, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 1, "order": "true",
    }  # fmt: skip
    assert [fields for _, _, fields, _ in admin.asked] == [
        made, {"topic": "T"}, {"topic": "T"}, {"topic": "T", "clusterName": "C"},
    ]  # fmt: skip


def test_topics_of_users_and_of_the_broker() -> None:
    admin = FakeAdmin(
        {
            Code.GET_ALL_TOPIC_CONFIG: answer({"topicConfigTable": {"T": {}}}),
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: answer({"topicList": ["S"]}),
        }
    )
    assert admin.do(topic_configs(admin, BROKER)) == {"topicConfigTable": {"T": {}}}
    assert admin.do(system_topics(admin, BROKER)) == {"S"}


def test_a_consume_queue_with_the_filter_of_a_group() -> None:
    admin = FakeAdmin({Code.QUERY_CONSUME_QUEUE: answer({"queueData": []})})
    for group in ("", "G"):
        found = admin.do(consume_queue(admin, BROKER, "T", 1, 5, 10, group=group))
        assert found == {"queueData": []}
    place = {"topic": "T", "queueId": 1, "index": 5, "count": 10}
    assert admin.fields(Code.QUERY_CONSUME_QUEUE) == [place, place | {"consumerGroup": "G"}]
