"""What sub-commands ask, print and refuse, but those about messages.

Only what the scene of tests/conformance/test_mqadmin.py does not have, which compares their output
on real servers with upstream's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.commands import (
    acl,
    brokers,
    cleaning,
    clusters,
    connections,
    consumers,
    exports,
    groups,
    monitoring,
    name_servers,
    offsets,
    progress,
    queue_views,
    stats,
    topic_views,
    topics,
)
from penstock.rocketmq.mqadmin.errors import CommandFailed, UsageWanted
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Language
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    NAME_SERVER,
    QUEUE,
    STATS,
    Answer,
    FakeAdmin,
    Work,
    answer,
    at_offset,
    in_json,
    interrupted,
    printed,
)

Answers = dict[Code, Answer]
NO, OK = Refused(1, "no"), answer()
BOUNDS = {QUEUE: {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}}
FIGURES = {
    "putTps": "1.5 0 0", "getTransferedTps": "2.5 0 0", "brokerVersionDesc": "V4_9_8",
    "sendThreadPoolQueueSize": "0", "sendThreadPoolQueueHeadWaitTimeMills": "1",
    "commitLogDiskRatio": "0.36", "msgPutTotalYesterdayMorning": "1",
    "msgPutTotalTodayMorning": "4", "msgPutTotalTodayNow": "9",
}  # fmt: skip
MEMBER = {"clientId": "10.0.0.1@1", "clientAddr": "10.0.0.1:5", "language": "JAVA", "version": 407}
MEMBERS = answer(
    {
        "connectionSet": [MEMBER | {"version": 409}, MEMBER | {"clientId": "b@1"}],
        "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
    }
)  # fmt: skip
SPAN = {"statsMinute": {"sum": 3, "tps": 0.5}, "statsHour": {"sum": 7}, "statsDay": {"sum": 0}}
LISTED = answer({"topicList": ["T", "%RETRY%G", "%DLQ%G", "U"]})
ACCOUNT = {"accessKey": "somebody", "admin": False, "topicPerms": ["a=PUB"]}
OFFLINE = Command(0).answer(206, "nobody is online")
OF_CPP = {"brokerName": "a", "queueId": 0, "topic": "T", "offset": 3}
RESET: Answers = {
    Code.INVOKE_BROKER_TO_RESET_OFFSET: OFFLINE, Code.GET_CONSUME_STATS: STATS,
    Code.GET_MAX_OFFSET: answer(offset=9), Code.SEARCH_OFFSET_BY_TIMESTAMP: answer(offset=6),
    Code.UPDATE_CONSUMER_OFFSET: OK,
}  # fmt: skip
NEVER_THERE: Answers = {
    Code.GET_CONSUME_STATS: answer({"offsetTable": {}}),
    Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": BOUNDS}),
}
CHANGING: Answers = {
    Code.UPDATE_AND_CREATE_TOPIC: OK, Code.DELETE_TOPIC_IN_BROKER: OK,
    Code.DELETE_TOPIC_IN_NAMESRV: OK, Code.PUT_KV_CONFIG: OK, Code.DELETE_SUBSCRIPTIONGROUP: OK,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: OK,
}  # fmt: skip


def reset_row(consumer: int, at: int, rolled: int) -> dict[str, Any]:
    """A queue of a group that nobody is in."""
    return {"queues": [{"broker": "a", "queue": 0, "brokerOffset": 9, "consumerOffset": consumer,
                        "timestampOffset": at, "rollbackOffset": rolled}]}  # fmt: skip


def group_row(**values: Any) -> dict[str, Any]:
    whole = {"group": "G", "count": 2, "version": "V4_9_7", "type": "PUSH", "model": "CLUSTERING",
             "tps": 2, "diffTotal": 5}  # fmt: skip
    return {"groups": [whole | values]}


def topic_row(**values: Any) -> dict[str, Any]:
    whole = {"topic": "T", "group": "G", "accumulation": 5, "inTps": 0.5, "outTps": 0.5,
             "in24Hours": 7, "out24Hours": 7}  # fmt: skip
    return {"topics": [whole | values]}


def stats_of(*groups: str, span: object = SPAN) -> Answers:
    return {
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["T", "%DLQ%G"]}),
        Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": list(groups)}),
        Code.VIEW_BROKER_STATS_DATA: answer(span), Code.GET_CONSUME_STATS: STATS,
    }  # fmt: skip


def groups_of_t(fields: dict[str, str]) -> object:
    return answer({"groupList": ["G"]}) if fields["topic"] == "T" else NO


def load(**values: Any) -> dict[str, Any]:
    row = {"cluster": "C", "broker": "a", "id": 0, "address": BROKER, "version": "V4_9_8",
           "in": 1.5, "out": 2.5, "pageCacheWaitMs": "", "hours": 0.0, "space": 0.36}  # fmt: skip
    return {"brokers": [row | values]}


CONSUMED = {"topic": "T", "group": "G", "broker": "a", "queue": 0, "brokerOffset": 9,
            "consumerOffset": 4, "diff": 5, "lastTime": 7}  # fmt: skip
BROKER_STATS: Answers = {
    Code.GET_BROKER_CONSUME_STATS: answer(
        {
            "consumeStatsList": [
                {"G": [{"offsetTable": {QUEUE: at_offset(4)[QUEUE] | {"lastTimestamp": 7}}}]}
            ],
            "totalDiff": 5,
        }
    )
}
PROGRESS: Answers = {
    Code.GET_CONSUME_STATS: STATS, Code.GET_CONSUMER_CONNECTION_LIST: MEMBERS,
    Code.GET_CONSUMER_RUNNING_INFO: answer({"mqTable": {QUEUE: {}}}),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: LISTED,
}  # fmt: skip
NOBODY: Answers = {
    Code.GET_CONSUME_STATS: Refused(206, ""), Code.GET_CONSUMER_CONNECTION_LIST: Refused(206, "")
}  # fmt: skip


@pytest.mark.parametrize(
    ("work", "answers", "given", "expected"),
    [
        pytest.param(topic_views.topic_route, {}, {"topic": "T"},
                     {"route": {"brokerDatas": [{"brokerAddrs": {"0": BROKER}, "brokerName": "a",
                                                 "cluster": "C"}],
                                "filterServerTable": {},
                                "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 2,
                                                "topicSysFlag": 0, "writeQueueNums": 2}]}},
                     id="topicRoute"),
        pytest.param(topic_views.topic_list,
                     {Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: LISTED,
                      Code.QUERY_TOPIC_CONSUME_BY_WHO: groups_of_t}, {"clusterModel": ""},
                     {"topics": [{"cluster": "C", "topic": "T", "group": "G"},
                                 {"cluster": "C", "topic": "U", "group": ""}]},
                     id="topicList, a topic of a broker that refuses among them"),
        pytest.param(topic_views.allocate, {}, {"topic": "T", "ipList": "x,y"},
                     {"result": {"x": [{"brokerName": "a", "queueId": 0, "topic": "T"}],
                                 "y": [{"brokerName": "a", "queueId": 1, "topic": "T"}]}},
                     id="allocateMQ"),
        pytest.param(acl.get_acl_config,
                     {Code.GET_BROKER_CLUSTER_ACL_CONFIG: answer(
                         {"globalWhiteAddrs": ["10.*"],
                          "plainAccessConfigs": [ACCOUNT | {"secretKey": "hidden"}]})},
                     {"clusterName": "C"},
                     {BROKER: {"globalWhiteAddrs": ["10.*"], "accounts": [ACCOUNT]}},
                     id="getAclConfig, of a Java broker, which tells the secrets"),
        pytest.param(brokers.broker_status,
                     {Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"b": "2", "a": "1"}})},
                     {"clusterName": "C"},
                     {"figures": [{"broker": BROKER, "name": "a", "value": "1"},
                                  {"broker": BROKER, "name": "b", "value": "2"}]},
                     id="brokerStatus of a cluster"),
        pytest.param(connections.producer_connection,
                     {Code.GET_PRODUCER_CONNECTION_LIST: answer({"connectionSet": [MEMBER]})},
                     {"producerGroup": "G", "topic": "T"},
                     {"connections": [{"number": 1, "clientId": "10.0.0.1@1",
                                       "address": "10.0.0.1:5", "language": "JAVA",
                                       "version": "V4_9_7"}]}, id="producerConnection"),
        pytest.param(brokers.broker_consume_stats, BROKER_STATS,
                     {"brokerAddr": BROKER, "level": "5"},
                     {"queues": [CONSUMED], "diffTotal": 5}, id="brokerConsumeStats, a lag of 5"),
        pytest.param(brokers.broker_consume_stats, BROKER_STATS,
                     {"brokerAddr": BROKER, "level": "6"}, {"queues": [], "diffTotal": 5},
                     id="brokerConsumeStats, lags above it"),
        pytest.param(clusters.list_clusters,
                     {Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})}, {}, load(),
                     id="clusterList"),
        pytest.param(clusters.list_clusters, {Code.GET_BROKER_RUNTIME_INFO: NO}, {},
                     load(version="", out=0.0, space=0.0, **{"in": 0.0}),
                     id="clusterList, no figures"),
        pytest.param(clusters.list_clusters,
                     {Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})}, {"moreStats": ""},
                     {"brokers": [{"cluster": "C", "broker": "a", "inYesterday": 3,
                                   "outYesterday": 0, "inToday": 5, "outToday": 0}]},
                     id="clusterList -m"),
        pytest.param(progress.progress, PROGRESS, {"groupName": "G", "showClientIP": "true"},
                     {"queues": [{"topic": "T", "broker": "a", "queue": 0, "brokerOffset": 9,
                                  "consumerOffset": 4, "clientIp": "b", "diff": 5, "lastTime": 0}],
                      "consumeTps": 2.5, "diffTotal": 5}, id="consumerProgress of a group"),
        pytest.param(progress.progress, PROGRESS, {}, group_row(), id="consumerProgress"),
        pytest.param(progress.progress, PROGRESS | NOBODY, {},
                     group_row(count=0, version="OFFLINE", type="", model="", tps=0, diffTotal=0),
                     id="consumerProgress, nobody is there and never was"),
        pytest.param(stats.all_stats, stats_of("G"), {}, topic_row(), id="statsAll"),
        pytest.param(stats.all_stats, stats_of(), {},
                     topic_row(group="", accumulation=0, outTps=None, out24Hours=None),
                     id="statsAll, no consumer"),
        pytest.param(stats.all_stats,
                     stats_of("G", span={name: {"sum": 0, "tps": 0.0} for name in SPAN}),
                     {"activeTopic": ""}, {"topics": []}, id="statsAll, active ones"),
        pytest.param(stats.all_stats, stats_of("G"), {"topic": "U"}, {"topics": []},
                     id="statsAll, another topic"),
        pytest.param(name_servers.get_namesrv_config,
                     {Code.GET_NAMESRV_CONFIG: answer(b"b=2\na=1\n")}, {},
                     {NAME_SERVER: {"a": "1", "b": "2"}}, id="getNamesrvConfig"),
        pytest.param(groups.get_consumer_config,
                     {Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer({})}, {"groupName": "G"},
                     {"groups": []}, id="getConsumerConfig of no group"),
        pytest.param(offsets.skip,
                     {Code.INVOKE_BROKER_TO_RESET_OFFSET: answer({"offsetTable": [OF_CPP]})},
                     {"group": "G", "topic": "T"},
                     {"queues": [{"broker": "a", "queue": 0, "offset": 3}]},
                     id="skipAccumulatedMessage, a list as C++ has it"),
        pytest.param(offsets.skip, RESET, {"group": "G", "topic": "T"}, reset_row(4, 9, 9),
                     id="skipAccumulatedMessage, nobody is there"),
        pytest.param(offsets.skip, RESET | NEVER_THERE, {"group": "G", "topic": "T"},
                     reset_row(2, 9, 9), id="skipAccumulatedMessage, nobody ever was"),
        pytest.param(offsets.reset, RESET, {"group": "G", "topic": "T", "timestamp": "5"},
                     reset_row(4, 6, 6), id="resetOffsetByTime"),
        pytest.param(offsets.reset, RESET,
                     {"group": "G", "topic": "T", "timestamp": "5", "force": "false"},
                     reset_row(4, 6, 4), id="resetOffsetByTime without force: only back"),
    ],
)  # fmt: skip
def test_the_json_of_a_sub_command(
    work: Work, answers: Answers, given: dict[str, str], expected: dict[str, Any]
) -> None:
    assert in_json(work, FakeAdmin(answers), **given) == expected


@pytest.mark.parametrize(
    ("work", "answers", "given", "expected"),
    [
        (brokers.update_broker_config, {Code.UPDATE_BROKER_CONFIG: NO},
         {"clusterName": "C", "key": "a", "value": "1"},
         {"text": f"update broker config failed, {BROKER}: CODE: 1  DESC: no", "broker": BROKER}),
        (name_servers.wipe_write_perm,
         {Code.WIPE_WRITE_PERM_OF_BROKER: answer(wipeTopicCount=3)}, {"brokerName": "a"},
         {"text": f"wipe write perm of broker[a] in name server[{NAME_SERVER}] OK, 3",
          "nameServer": NAME_SERVER, "topics": 3}),
        (name_servers.add_write_perm, {Code.ADD_WRITE_PERM_OF_BROKER: NO}, {"brokerName": "a"},
         {"text": f"add write perm of broker[a] in name server[{NAME_SERVER}] Failed\n"
          "CODE: 1  DESC: no", "nameServer": NAME_SERVER, "error": "CODE: 1  DESC: no"}),
        (groups.delete_sub_group, CHANGING | {Code.DELETE_TOPIC_IN_BROKER: NO},
         {"groupName": "G", "clusterName": "C"}, {"text": "CODE: 1  DESC: no"}),
        (consumers.status,
         {Code.GET_CONSUMER_CONNECTION_LIST: MEMBERS,
          Code.GET_CONSUMER_RUNNING_INFO: Refused(207, "Timeout")}, {"consumerGroup": "G"},
         {"text": "b@1: CODE: 207  DESC: Timeout", "clientId": "b@1"}),
        (cleaning.clean_unused, {Code.GET_BROKER_CLUSTER_INFO: answer({})}, {},
         {"text": "false", "brokers": []}),
    ],
    ids=["a setting that is refused", "permissions", "permissions that are refused",
         "topics of a group that are not deleted", "a member that does not answer", "no brokers"],
)  # fmt: skip
def test_results_and_failures_go_on_as_sentences(
    work: Work, answers: Answers, given: dict[str, str], expected: dict[str, Any]
) -> None:
    assert in_json(work, FakeAdmin(answers), **given)["results"][-1] == expected


@pytest.mark.parametrize(
    ("work", "answers", "given", "error", "says"),
    [
        (topic_views.topic_status, {Code.GET_TOPIC_STATS_INFO: answer({})}, {"topic": "T"},
         CommandFailed, "Not found the topic stats info"),
        (topics.update_topic_perm, {}, {"topic": "T", "brokerAddr": "x:1", "perm": "6"},
         CommandFailed, "broker is not master"),
        (topics.update_order_conf, {}, {"topic": "T", "method": "put"}, CommandFailed,
         "please set orderConf with option -v"),
        (connections.producer_connection, {Code.GET_PRODUCER_CONNECTION_LIST: answer({})},
         {"producerGroup": "G", "topic": "T"}, CommandFailed, "Not found the producer group"),
        (brokers.update_broker_config, {}, {"key": "a", "value": "1"}, UsageWanted, "neither a"),
        (groups.update_sub_group, {}, {"groupName": "G"}, UsageWanted, "neither a broker nor"),
        (offsets.reset, {Code.INVOKE_BROKER_TO_RESET_OFFSET: NO},
         {"group": "G", "topic": "T", "timestamp": "now"}, Refused, "CODE: 1  DESC: no"),
        (offsets.skip, {Code.INVOKE_BROKER_TO_RESET_OFFSET: NO}, {"group": "G", "topic": "T"},
         Refused, "CODE: 1  DESC: no"),
    ],
)  # fmt: skip
def test_what_a_sub_command_refuses(
    work: Work, answers: Answers, given: dict[str, str], error: type[PenstockError], says: str
) -> None:
    with pytest.raises(error, match=says):
        printed(work, FakeAdmin(answers), **given)


TOPIC = {
    "topic": "T", "defaultTopic": "TBW102", "readQueueNums": 8, "writeQueueNums": 8, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip
GONE = {"groupName": "G", "removeOffset": "false", "cleanOffset": "false"}


@pytest.mark.parametrize(
    ("work", "given", "code", "fields"),
    [
        (topics.update_topic, {"topic": "T", "clusterName": "C", "writeQueueNums": "3",
                               "unit": "true", "hasUnitSub": "true"},
         Code.UPDATE_AND_CREATE_TOPIC, TOPIC | {"writeQueueNums": 3, "topicSysFlag": 3}),
        (topics.update_topic, {"topic": "T", "brokerAddr": BROKER, "attributes": "+a=b,-c"},
         Code.UPDATE_AND_CREATE_TOPIC, TOPIC | {"attributes": "+a=b,-c"}),
        (acl.update_acl_config,
         {"clusterName": "C", "accessKey": "somebody", "secretKey": "hidden"},
         Code.UPDATE_AND_CREATE_ACL_CONFIG,
         {"accessKey": "somebody", "secretKey": "hidden", "admin": "false"}),
        (acl.update_global_white_addr,
         {"brokerAddr": BROKER, "globalWhiteRemoteAddresses": "10.0.0.1", "aclFileFullPath": "/f"},
         Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
         {"globalWhiteAddrs": "10.0.0.1", "aclFileFullPath": "/f"}),
        (groups.delete_sub_group, {"groupName": "G", "brokerAddr": BROKER},
         Code.DELETE_SUBSCRIPTIONGROUP, GONE),
        (groups.delete_sub_group, {"groupName": "G", "brokerAddr": BROKER, "removeOffset": "true"},
         Code.DELETE_SUBSCRIPTIONGROUP, GONE | {"removeOffset": "true", "cleanOffset": "true"}),
    ],
    ids=["a topic", "attributes, which 4.9 knows nothing of", "an account", "trusted addresses",
         "a group", "a group and its offsets, for 4.9 and for 5"],
)  # fmt: skip
def test_the_fields_of_a_request(
    work: Work, given: dict[str, str], code: Code, fields: dict[str, Any]
) -> None:
    admin = FakeAdmin({code: OK})
    text = printed(work, admin, **given)
    assert admin.fields(code) == [fields]
    assert "hidden" not in text


def test_a_setting_may_have_blanks() -> None:
    admin = FakeAdmin({Code.UPDATE_BROKER_CONFIG: OK, Code.UPDATE_NAMESRV_CONFIG: OK})
    printed(brokers.update_broker_config, admin, clusterName="C", key="a", value="x y")
    printed(name_servers.update_namesrv_config, admin, key="a", value="x y")
    assert [each[3] for each in admin.asked[-2:]] == [b"a=x y\n"] * 2


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "place", "order"),
    [
        (answer(value="b:1"), {"brokerAddr": BROKER, "writeQueueNums": "2"}, "b:1;a:2"),
        (Refused(22, "No config item"), {"brokerAddr": BROKER}, "a:8"),
        (answer(value="b:1"), {"clusterName": "C"}, "a:8"),
    ],
    ids=["added to the order that is there", "begun", "of a cluster"],
)
def test_an_ordered_topic(there: Answer, place: dict[str, str], order: str) -> None:
    admin = FakeAdmin(CHANGING | {Code.GET_KV_CONFIG: there})
    printed(topics.update_topic, admin, topic="T", order="true", **place)
    assert [each["value"] for each in admin.fields(Code.PUT_KV_CONFIG)] == [order]


def test_a_topic_is_deleted_on_brokers_and_then_at_name_servers() -> None:
    admin = FakeAdmin(CHANGING)
    printed(topics.delete_topic, admin, topic="T", clusterName="C")
    assert [each[0] for each in admin.asked[-2:]] == [BROKER, NAME_SERVER]


def test_each_broker_keeps_its_own_queues_when_permissions_change() -> None:
    data = [{"brokerName": name, "cluster": "C", "brokerAddrs": {0: f"{name}:1"}} for name in "abc"]
    queues = [
        {"brokerName": name, "readQueueNums": count, "writeQueueNums": count + 1, "perm": count,
         "topicSysFlag": 0}
        for name, count in (("a", 8), ("b", 16))
    ]  # fmt: skip
    known = {
        "clusterAddrTable": {"C": ["a", "b", "c"]},
        "brokerAddrTable": {each["brokerName"]: each for each in data},
    }
    admin = FakeAdmin(
        CHANGING
        | {
            Code.GET_ROUTEINFO_BY_TOPIC: answer({"brokerDatas": data[:2], "queueDatas": queues}),
            Code.GET_BROKER_CLUSTER_INFO: answer(known),
        }
    )
    text = printed(topics.update_topic_perm, admin, topic="T", clusterName="C", perm="4")
    assert "from 16 to 4 in b:1" in text
    printed(topics.update_topic_perm, admin, topic="T", brokerAddr="b:1", perm="4")
    told = [
        (address, fields["readQueueNums"], fields["writeQueueNums"])
        for address, code, fields, _ in admin.asked
        if code == Code.UPDATE_AND_CREATE_TOPIC
    ]
    assert told == [("a:1", 8, 9), ("b:1", 16, 17), ("c:1", 8, 9), ("b:1", 16, 17)]


def test_what_a_filter_says_of_the_entries_of_a_queue() -> None:
    entry = {"physicOffset": 1, "physicSize": 2, "tagsCode": 3, "eval": True, "msg": "m"}
    found = answer({"maxQueueIndex": 2, "filterData": "bloom", "queueData": [entry]})
    admin = FakeAdmin({Code.QUERY_CONSUME_QUEUE: found})
    text = printed(queue_views.query, admin, topic="T", queue="0", index="1", consumer="G")
    assert "Filter data: \nbloom\n" in text
    assert "idx: 1\nConsumeQueueData{physicOffset=1, physicSize=2, tagsCode=3, " in text
    assert "extendDataJson='null', bitMap='null', eval=true, msg='m'}\n" in text
    assert admin.fields(Code.QUERY_CONSUME_QUEUE)[0]["consumerGroup"] == "G"
    shown = in_json(queue_views.query, admin, topic="T", queue="0", index="1")
    assert shown["queue"]["maxQueueIndex"] == 2


# --- groups and their members ---------------------------------------------------------------------


@pytest.mark.parametrize(("given", "sent"), [({}, None), ({"consumeMessageOrderly": "true"}, True)])
def test_order_of_a_group_is_sent_where_it_is_asked_for(
    given: dict[str, str], sent: object
) -> None:
    """As 4.9's tool, which knows nothing of it."""
    admin = FakeAdmin(CHANGING)
    printed(groups.update_sub_group, admin, groupName="G", clusterName="C", **given)
    assert fastjson.loads(admin.asked[-1][3]).get("consumeMessageOrderly") is sent


def test_a_group_is_deleted_with_its_topics() -> None:
    admin = FakeAdmin(CHANGING)
    printed(groups.delete_sub_group, admin, groupName="G", clusterName="C")
    deleted = [each["topic"] for each in admin.fields(Code.DELETE_TOPIC_IN_BROKER)]
    assert deleted == ["%RETRY%G", "%DLQ%G"]


def test_a_group_of_producers_without_members_is_shown() -> None:
    admin = FakeAdmin({Code.GET_ALL_PRODUCER_INFO: answer({"data": {"E": []}})})
    text = printed(connections.producer, admin, broker=BROKER)
    assert text == "producer group (E) instances are empty\n"


def test_members_are_told_in_the_language_of_cpp() -> None:
    admin = FakeAdmin({Code.INVOKE_BROKER_TO_RESET_OFFSET: answer({"offsetTable": {QUEUE: 7}})})
    printed(offsets.reset, admin, group="G", topic="T", timestamp="now", cplus="")
    assert admin.language is Language.CPP
    assert admin.fields(Code.INVOKE_BROKER_TO_RESET_OFFSET)[0]["timestamp"] == -1


@pytest.mark.parametrize(("force", "committed"), [("true", ["6"]), ("false", [])])
def test_offsets_that_are_not_reset_are_not_committed(force: str, committed: list[str]) -> None:
    admin = FakeAdmin(RESET)
    printed(offsets.reset, admin, group="G", topic="T", timestamp="5", force=force)
    found = [each["commitOffset"] for each in admin.fields(Code.UPDATE_CONSUMER_OFFSET)]
    assert found == committed


def test_offsets_of_another_topic_at_another_broker_are_cloned_too() -> None:
    elsewhere = (("brokerName", "b"), ("queueId", 3), ("topic", "U"))
    table = {each: at_offset(4)[QUEUE] for each in (QUEUE, elsewhere)}

    def route(fields: dict[str, Any]) -> Command:
        names = {"T": "a", "%RETRY%G": "ab"}[fields["topic"]]
        return answer({"brokerDatas": [{"brokerName": name, "brokerAddrs": {0: f"{name}:1"}}
                                       for name in names]})  # fmt: skip

    admin = FakeAdmin(RESET | {Code.GET_CONSUME_STATS: answer({"offsetTable": table}),
                               Code.GET_ROUTEINFO_BY_TOPIC: route})  # fmt: skip
    printed(offsets.clone, admin, srcGroup="G", destGroup="H", topic="T")
    told = [
        (address, *(fields[name] for name in ("consumerGroup", "topic", "queueId", "commitOffset")))
        for address, code, fields, _ in admin.asked
        if code == Code.UPDATE_CONSUMER_OFFSET
    ]  # fmt: skip
    assert told == [("a:1", "H", "T", "0", "4"), ("b:1", "H", "U", "3", "4")]


NOW = 10_000_000


def info(subscribed: str = "*", orderly: str = "false", **queue: object) -> dict[str, Any]:
    return {
        "properties": {
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": orderly,
            "PROP_CONSUMER_START_TIMESTAMP": "1",
        },
        "subscriptionSet": [{"topic": "T", "subString": subscribed, "classFilterMode": False}],
        "mqTable": {QUEUE: {"commitOffset": 7, **queue}},
        "statusTable": {"T": {"pullRT": 1.5, "consumeFailedMsgs": 2}},
    }  # fmt: skip


def running(told: object, client: str = "10.0.0.1@../1") -> FakeAdmin:
    """A group with one member, which tells this of itself."""
    members = {"connectionSet": [MEMBER | {"clientId": client}]}
    return FakeAdmin({Code.GET_CONSUMER_CONNECTION_LIST: answer(members),
                      Code.GET_CONSUMER_RUNNING_INFO: answer(told)})  # fmt: skip


def test_members_with_a_file_for_each_that_stays_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed(consumers.status, running(info()), consumerGroup="G")
    (file,) = tmp_path.rglob("*@*")
    assert file.name == "10.0.0.1@.._1"
    shown = file.read_text()
    assert "001 Topic: T" in shown
    assert "ProcessQueueInfo [commitOffset=7, cachedMsgMinOffset=0, " in shown
    assert "          1.50 " in shown


def test_one_member_in_full() -> None:
    found = in_json(consumers.status, running(info()), consumerGroup="G", clientId="c")
    assert found["runningInfo"]["mqTable"] == [
        {"brokerName": "a", "queueId": 0, "topic": "T", "commitOffset": 7}
    ]
    told = {**info(), "jstack": "main runs"}
    text = printed(consumers.status, running(told), consumerGroup="G", clientId="c", jstack="")
    assert text.endswith("#Consumer jstack#\nmain runs")


def test_different_subscriptions_are_seen_after_two_minutes() -> None:
    infos = [info("a"), info("b")]
    assert not consumers.is_same_subscription(infos, NOW)
    assert consumers.is_same_subscription(infos, 100_000)
    assert consumers.is_same_subscription([info(), info()], NOW)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (info(cachedMsgCount=1), "can't consume for a while, maybe blocked, 10000000ms"),
        (info(cachedMsgCount=0), None),
        (info(orderly="true", locked=False, lastLockTimestamp=NOW - 5),
         "can't lock for a while, 5ms"),
        (info(orderly="true", locked=True, droped=True, tryUnlockTimes=3),
         "unlock 3 times, still failed"),
        (info(orderly="true", locked=True), None),
    ],
)  # fmt: skip
def test_queues_that_do_not_get_on(told: dict[str, Any], expected: str | None) -> None:
    queue = "MessageQueue [topic=T, brokerName=a, queueId=0]"
    expected_lines = [] if expected is None else [f"c {queue} {expected}"]
    assert consumers.complaints("c", told, NOW) == expected_lines


def test_a_round_of_the_monitor() -> None:
    async def look(admin: Any, given: ParsedOptions, out: Output) -> None:
        await monitoring.look(admin, out)

    admin = running(info(cachedMsgCount=1) | {"subscriptionSet": []}, "c")
    admin.answers |= {
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: LISTED,
        Code.GET_CONSUME_STATS: STATS,
    }
    undone, different, hanging = in_json(look, admin)["results"]
    assert undone["undoneMsgsTotal"] == 5
    assert "ConsumerGroup: G, Subscription different" in different["text"]
    assert "ClientId: c, c MessageQueue [topic=T, brokerName=a, queueId=0] can't" in hanging["text"]


# --- brokers and clusters -------------------------------------------------------------------------


def test_a_rate_is_shown_with_what_waits() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})})
    assert "     1.50(0,1ms)" in printed(clusters.list_clusters, admin)


def test_clusters_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "pause", interrupted)
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})})
    with pytest.raises(KeyboardInterrupt):
        printed(clusters.list_clusters, admin, interval="5")


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (cleaning.clean_expired, Code.CLEAN_EXPIRED_CONSUMEQUEUE),
        (cleaning.clean_unused, Code.CLEAN_UNUSED_TOPIC),
        (cleaning.delete_expired, Code.DELETE_EXPIRED_COMMITLOG),
    ],
)
def test_a_broker_a_cluster_or_all_clusters_are_cleaned(work: Work, code: Code) -> None:
    admin = FakeAdmin({code: OK})
    for given in ({"brokerAddr": BROKER}, {"cluster": "C"}, {}):
        assert printed(work, admin, **given) == "success"
    assert [each[0] for each in admin.asked if each[1] == code] == [BROKER] * 3


EXPORTED = FakeAdmin(
    {
        Code.GET_ALL_TOPIC_CONFIG: answer(
            {"topicConfigTable": {
                name: {"readQueueNums": 2, "writeQueueNums": 2}
                for name in ("T", "%RETRY%G", "TBW102")}}),
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: answer({"topicList": ["TBW102"]}),
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(
            {"subscriptionGroupTable": {
                name: {"retryQueueNums": 1} for name in ("G", "TOOLS_CONSUMER", "CID_RMQ_SYS_x")}}),
        Code.GET_BROKER_CONFIG: answer(b"brokerName=a\nbrokerRole=ASYNC_MASTER\n"),
        Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"putTps": "1.5 0 0"}}),
        Code.VIEW_BROKER_STATS_DATA: NO,
        Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": [MEMBER]}),
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "file", "topics_", "groups_"),
    [
        ({"clusterName": "C"}, "metadata.json", ["T"], ["G"]),
        ({"brokerAddr": BROKER, "topic": "", "specialTopic": ""}, "topic.json",
         ["%RETRY%G", "T"], []),
        ({"brokerAddr": BROKER, "subscriptionGroup": ""}, "subscriptionGroup.json", [], ["G"]),
    ],
)  # fmt: skip
def test_topics_and_groups_are_exported_without_the_systems(
    tmp_path: Path, given: dict[str, str], file: str, topics_: list[str], groups_: list[str]
) -> None:
    printed(exports.export_metadata, EXPORTED, filePath=str(tmp_path), **given)
    found = fastjson.loads((tmp_path / file).read_bytes())
    assert sorted(found.get("topicConfigTable", {})) == topics_
    assert sorted(found.get("subscriptionGroupTable", {})) == groups_


def test_queues_of_several_brokers_are_summed() -> None:
    merged = {"T": {"readQueueNums": 2}}
    exports._merge(merged, {"T": {"readQueueNums": 3}, "U": {"readQueueNums": 1}}, "readQueueNums")
    assert merged == {"T": {"readQueueNums": 5}, "U": {"readQueueNums": 1}}


def test_figures_are_exported_with_what_a_broker_refuses_left_out(tmp_path: Path) -> None:
    printed(exports.export_metrics, EXPORTED, clusterName="C", filePath=str(tmp_path))
    found = fastjson.loads((tmp_path / "metrics.json").read_bytes())
    assert found["totalData"]["totalTps"]["totalNormalInTps"] == 1.5
    assert found["evaluateReport"]["a"]["runtimeVersion"]["clientInfo"] == ["JAVA%V4_9_7"]
