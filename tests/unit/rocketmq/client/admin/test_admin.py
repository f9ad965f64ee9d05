"""What an administrator's client asks, and what it makes of the answers.

Fields that mqadmin sends are in tests/unit/rocketmq/mqadmin/commands, or in what real servers do
with them (tests/conformance/test_mqadmin.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.rocketmq.client.admin import brokers, clients, messages, offsets, topics
from penstock.rocketmq.client.admin.client import successful
from penstock.rocketmq.client.admin.consume_stats import broker_consume_stats, consume_stats
from penstock.rocketmq.client.admin.errors import AdminError, Refused
from penstock.rocketmq.client.admin.topology import Clusters, TopicRoute
from penstock.rocketmq.client.admin.trace_entries import AFTER, BEFORE, ENDED, SENT, Entry, entries
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.client.produce.trace import entry
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    NAME_SERVER,
    QUEUE,
    STATS,
    FakeAdmin,
    answer,
    record,
    stored,
)

B, N = BROKER, NAME_SERVER
PLACE = MessageQueue("a", 0, "T")
BOUNDS = {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}
Asks = Callable[[FakeAdmin], Coroutine[Any, None, Any]]


CALLS: list[tuple[Asks, Code, Command, dict[str, Any], object]] = [
    (lambda a: a.topics(), Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
     answer({"topicList": ["b", "a"]}), {}, ["a", "b"]),
    (lambda a: brokers.runtime_info(a, B), Code.GET_BROKER_RUNTIME_INFO,
     answer({"table": {"putTps": 1}}), {}, {"putTps": "1"}),
    (lambda a: clients.running_info(a, B, "G", "me", jstack=True),
     Code.GET_CONSUMER_RUNNING_INFO, answer({"jstack": "stack"}),
     {"consumerGroup": "G", "clientId": "me", "jstackEnable": "true"}, {"jstack": "stack"}),
    (lambda a: messages.consume_directly(a, B, "G", "me", "id", topic="t"),
     Code.CONSUME_MESSAGE_DIRECTLY, answer({"consumeResult": "CR_SUCCESS"}),
     {"consumerGroup": "G", "clientId": "me", "msgId": "id", "topic": "t"},
     {"consumeResult": "CR_SUCCESS"}),
    (lambda a: offsets.offset_at(a, B, PLACE, offsets.TO_THE_END),
     Code.SEARCH_OFFSET_BY_TIMESTAMP, answer(offset=6),
     {"topic": "T", "queueId": "0", "timestamp": "-1"}, 6),
    (lambda a: topics.groups_of(a, B, "T"), Code.QUERY_TOPIC_CONSUME_BY_WHO,
     answer({"groupList": ["h", "g"]}), {"topic": "T"}, ["g", "h"]),
    (lambda a: topics.forget_topic(a, N, "T"), Code.DELETE_TOPIC_IN_NAMESRV, answer(),
     {"topic": "T"}, None),
    (lambda a: topics.consume_queue(a, B, "T", 1, 5, 10), Code.QUERY_CONSUME_QUEUE,
     answer({"queueData": []}),
     {"topic": "T", "queueId": 1, "index": 5, "count": 10}, {"queueData": []}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asks", "code", "answered", "fields", "found"), CALLS, ids=[each[1].name for each in CALLS]
)
def test_a_request_and_what_is_made_of_its_answer(
    asks: Asks, code: Code, answered: Command, fields: dict[str, Any], found: object
) -> None:
    admin = FakeAdmin({code: answered})
    assert admin.do(asks(admin)) == found
    assert admin.fields(code) == [fields]


# --- refusals -------------------------------------------------------------------------------------


def test_an_answer_that_is_no_object_is_refused() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer([1])})
    with pytest.raises(BadAnswer, match="not a JSON object"):
        admin.do(admin.ask_json(B, Code.GET_BROKER_RUNTIME_INFO))


def test_a_refusal_reads_as_upstreams() -> None:
    assert str(Refused(17, "No route\nSee http://")) == "CODE: 17  DESC: No route"
    assert str(Refused(1, None)) == "CODE: 1  DESC: "
    with pytest.raises(Refused, match="CODE: 17  DESC: nobody has it"):
        successful(Command(0).answer(17, "nobody has it"))


# --- clusters and routes --------------------------------------------------------------------------

CLUSTERS = Clusters.parse(
    {
        "clusterAddrTable": {"C": ["b", "a", "gone"]},
        "brokerAddrTable": {
            "a": {"brokerName": "a", "cluster": "C", "brokerAddrs": {"1": "a:2", "0": "a:1"}},
            "b": {"brokerName": "b", "cluster": "C", "brokerAddrs": {2: "b:3"}},
        },
    }
)


def test_masters_replicas_and_names() -> None:
    assert CLUSTERS.masters("C") == ["a:1"]
    assert CLUSTERS.addresses("C") == ["a:1", "a:2", "b:3"]
    assert [CLUSTERS.cluster_of(name) for name in ("b", "nobody")] == ["C", None]
    assert CLUSTERS.name_of("a:2") == "a"
    assert CLUSTERS.brokers["b"].any_address() == "b:3"
    found = CLUSTERS.replicas()
    assert [(each.cluster, each.broker, each.number, each.address) for each in found] == [
        ("C", "a", 0, "a:1"), ("C", "a", 1, "a:2"), ("C", "b", 2, "b:3"),
    ]  # fmt: skip
    assert str(found[0]) == "broker a"


def test_a_cluster_that_is_not_there_is_named_with_the_remedy() -> None:
    with pytest.raises(AdminError, match="Make sure the specified clusterName exists"):
        CLUSTERS.masters("nosuch")
    with pytest.raises(AdminError, match="Make sure"):
        CLUSTERS.name_of("x:1")


def test_a_route_has_its_readable_queues() -> None:
    queue = {"readQueueNums": 2, "writeQueueNums": 1, "perm": 6, "topicSynFlag": 1}
    route = TopicRoute.parse(
        {
            "brokerDatas": [{"brokerName": "a", "cluster": "C", "brokerAddrs": {0: "a:1"}}],
            "queueDatas": [{**queue, "brokerName": "b", "perm": 2}, {**queue, "brokerName": "a"}],
        }
    )
    assert [each.queueId for each in route.readable("T")] == [0, 1]
    assert (route.addresses, route.queues[0].topicSysFlag) == (["a:1"], 1)


# --- figures and offsets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "hour", "expected"), [(9, 4, 9), (0, 4, 4), (0, 0, 1)], ids=["day", "hour", "minute"]
)
def test_a_day_that_is_not_summed_up_is_its_last_part(day: int, hour: int, expected: int) -> None:
    spans = {
        "statsDay": {"sum": day}, "statsHour": {"sum": hour}, "statsMinute": {"sum": 1, "tps": 0.5},
    }  # fmt: skip
    admin = FakeAdmin({Code.VIEW_BROKER_STATS_DATA: answer(spans)})
    assert admin.do(brokers.rates(admin, B, "TOPIC_PUT_NUMS", "T")) == (0.5, expected)


def test_offsets_of_all_brokers_are_gathered() -> None:
    admin = FakeAdmin({Code.GET_CONSUME_STATS: STATS})
    found = admin.do(consume_stats(admin, "G", "T"))
    assert (found.tps, found.lag, list(found.queues)) == (2.5, 5, [PLACE])
    assert admin.fields(Code.GET_CONSUME_STATS) == [{"consumerGroup": "G", "topic": "T"}]
    admin = FakeAdmin({Code.GET_CONSUME_STATS: answer({"offsetTable": {}})})
    with pytest.raises(Refused, match=r"CODE: 206 .* maybe the consumer not consume any message"):
        admin.do(consume_stats(admin, "G"))


def test_all_groups_of_a_broker_with_a_part_for_each_topic() -> None:
    part = {"offsetTable": {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 7}}}
    told = {"consumeStatsList": [{"G": [part, part]}, {"H": []}], "totalDiff": 10}
    admin = FakeAdmin({Code.GET_BROKER_CONSUME_STATS: answer(told)})
    found = admin.do(broker_consume_stats(admin, B))
    assert ([group for group, _ in found.groups], found.lag) == (["G", "G"], 10)
    assert admin.fields(Code.GET_BROKER_CONSUME_STATS) == [{"isOrder": "false"}]


def test_a_group_that_was_never_there_is_at_the_beginning() -> None:
    admin = FakeAdmin(
        {
            Code.GET_CONSUME_STATS: answer({}),
            Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {QUEUE: BOUNDS}}),
        }
    )
    (found,) = admin.do(offsets.progress(admin, B, "G", "T")).values()
    assert (found.broker_offset, found.consumer_offset) == (9, 2)


@pytest.mark.parametrize(
    ("table", "language"),
    [({QUEUE: 7}, Language.PYTHON), ([{**PLACE._asdict(), "offset": 7}], Language.CPP)],
)
def test_the_members_of_a_group_are_told_where_to_go_on(table: Any, language: Language) -> None:
    admin = FakeAdmin({Code.INVOKE_BROKER_TO_RESET_OFFSET: answer({"offsetTable": table})})
    is_cpp = language is Language.CPP
    assert admin.do(offsets.reset_members(admin, B, "G", "T", 5, cpp=is_cpp)) == {PLACE: 7}
    assert admin.language is language


# --- messages -------------------------------------------------------------------------------------


def message(topic: str, identifier: str, keys: str) -> bytes:
    return record(f"UNIQ_KEY\1{identifier}\2KEYS\1{keys}\2", topic=topic)


def test_an_answer_has_messages_of_other_keys_topics_and_ids() -> None:
    found = (
        message("t", "one", "k")
        + message("t", "two", "else k")
        + message("t", "k", "else")
        + message("other", "three", "k")
    )
    assert [each.id for each in messages.KeyQuery("t", "k").found(found, "b")] == ["one", "two"]
    assert [each.id for each in messages.KeyQuery("t", "k", is_id=True).found(found, "b")] == ["k"]


def test_messages_of_an_index_and_of_a_place() -> None:
    found = answer(message("t", "one", "k") + message("t", "two", "else"))
    admin = FakeAdmin({Code.QUERY_MESSAGE: found, Code.VIEW_MESSAGE_BY_ID: found})
    for query in (messages.KeyQuery("t", "k"), messages.KeyQuery("t", "one", is_id=True)):
        indexed = admin.do(messages.with_key(admin, B, query, 9, "b"))
        assert [(each.id, each.broker) for each in indexed] == [("one", "b")]
    whole = {"topic": "t", "maxNum": 9, "beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}
    assert admin.fields(Code.QUERY_MESSAGE) == [
        {**whole, "key": "k"}, {**whole, "key": "one", "_UNIQUE_KEY_QUERY": "true"},
    ]  # fmt: skip
    assert [each.id for each in admin.do(messages.at_offset(admin, B, 7))] == ["one", "two"]
    admin.do(messages.at_offset(admin, B, 7, "t"))
    assert admin.fields(Code.VIEW_MESSAGE_BY_ID) == [{"offset": 7}, {"offset": 7, "topic": "t"}]


def test_a_message_again_is_a_new_one_of_the_user() -> None:
    found = messages.again(Received(stored("UNIQ_KEY\1one\2KEYS\1k\2x\1y\2", b"tea")))
    assert (found.topic, found.body, found.keys) == ("T", b"tea", ["k"])
    assert found.properties == {"x": "y"}


# --- traces ---------------------------------------------------------------------------------------


def test_entries_of_all_kinds() -> None:
    body = (
        entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, "OFFSET", True, "h")
        + entry("SubBefore", 6, "R", "billing", "r", "U1", 2, "k")
        + entry("SubAfter", "r", "U1", 7, False, "k", 0, 8, "billing")
        + entry("EndTransaction", 9, "R", "shop", "T", "U1", "", "", "h", 2, "tx", "UNKNOW", False)
    )
    assert entries(body.encode()) == [
        Entry(SENT, "U1", "shop", 5, 12, True, "h"),
        Entry(BEFORE, "U1", "billing", 6, request_id="r", retries=2),
        Entry(AFTER, "U1", "billing", 8, 7, False, request_id="r"),
        Entry(ENDED, "U1", "shop", 9, store_host="h", state="UNKNOW"),
    ]


def test_old_clients_tell_less() -> None:
    sent = entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, False)
    after = entry("SubAfter", "r", "U1", 7, True, "k")
    first, second = entries((sent + after).encode())
    assert not first.is_ok
    assert (second.group, second.time_ms) == ("", 0)


@pytest.mark.parametrize("body", [b"", b"\xff\x02", b"Pub\x01\x02", b"SubAfter\x01r\x01U\x01x\x02"])
def test_an_entry_that_makes_no_sense_is_left_out(body: bytes) -> None:
    assert entries(body) == []


def test_an_entry_of_a_batch_is_about_each_of_its_messages() -> None:
    batch = Entry(SENT, "U1,U2")
    assert batch.is_about("U1")
    assert not batch.is_about("U")
