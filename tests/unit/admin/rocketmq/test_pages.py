"""Pages of topics, groups and brokers, from what several brokers answer."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.nodes.machines import Machine
from penstock.admin.rocketmq.attention import attention
from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.consumer_groups import (
    DeadLetterCount,
    all_groups,
    dead_letter_counts,
    one_group,
)
from penstock.admin.rocketmq.group_rates import GroupRate, GroupRates
from penstock.admin.rocketmq.offsets import preview, reset
from penstock.admin.rocketmq.other_brokers import OtherBrokers
from penstock.admin.rocketmq.topics import all_topics, groups_of, one_topic, sums_of
from penstock.admin.rocketmq.verdicts import GroupFacts, of_disk, of_group, of_server
from penstock.cluster.cluster import Addresses
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import whole_groups
from penstock.cluster.producers import Producer
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.offsets import TO_THE_END
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.admin.rocketmq.scripted import NAME_SERVER, A, B, Scripted, bounds, progress, route

STATS = RequestCode.GET_BROKER_CONSUME_STATS
RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO
TOPICS = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
BOUNDS = RequestCode.GET_TOPIC_STATS_INFO
PROGRESS = RequestCode.GET_CONSUME_STATS
MEMBERS = RequestCode.GET_CONSUMER_CONNECTION_LIST
SETTINGS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
OFFLINE = Refused(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
FIGURES = {
    "brokerVersionDesc": "V5_3_1", "putTps": "1.5 2 3", "getTransferedTps": "NaN 1 1",
    "msgPutTotalTodayNow": "30", "msgPutTotalTodayMorning": "10",
    "commitLogDiskRatio": "0.8",
}  # fmt: skip


@pytest.mark.parametrize("name", ["getTransferedTps", "getTransferredTps"])
async def test_what_goes_out_has_two_names_and_may_be_nothing(name: str) -> None:
    servers = Scripted({RUNTIME: {"table": {name: "0.0 1.5"}}})
    assert [each["out"] for each in (await cluster(servers))["brokers"]] == [0.0, 0.0]


async def test_figures_of_those_that_answer_and_names_of_those_that_do_not() -> None:
    servers = Scripted(
        {
            (A, RUNTIME): {"table": FIGURES},
            (B, RUNTIME): NotConnected(B, "refused"),
            TOPICS: {"topicList": ["t"]},
        }
    )
    found = await cluster(servers)
    assert found["name_servers"] == [
        {"address": NAME_SERVER, "answers": True, "verdicts": [], "brokers": 2, "topics": 1}
    ]
    good, bad = found["brokers"]
    assert (good["version"], good["in"], good["out"], good["in_today"]) == ("V5_3_1", 1.5, None, 20)
    assert (bad["broker"], bad["answers"], bad["in"]) == ("b", False, None)
    assert [each["kind"] for each in good["verdicts"] + bad["verdicts"]] == ["disk", "silent"]
    assert found["message"] == f"WARNING: {B}: refused; {NotConnected.REMEDY}"


CONFIG = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}


async def test_the_list_has_the_figures_of_all_brokers() -> None:
    stats = {"consumeStatsList": [{"g": [progress("a", 9, 4)]}]}
    servers = Scripted(
        {
            TOPICS: {"topicList": ["t", "TBW102"]},
            RequestCode.GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"t": CONFIG}},
            (A, STATS): stats,
            (B, STATS): {},
            (A, BOUNDS): bounds("a", 9),
            (B, BOUNDS): bounds("b", 3),
        }
    )
    system, topic = (await all_topics(servers))["topics"]
    assert (system["topic"], system["kind"], system["kept"]) == ("TBW102", "system", None)
    assert (topic["kept"], topic["lag"], topic["groups"]) == (12, 5, 1)
    assert (topic["brokers"], topic["read_queues"]) == (["a", "b"], 2)


async def test_a_broker_without_the_topic_adds_nothing_to_its_figures() -> None:
    gone = Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    servers = Scripted({(A, BOUNDS): bounds("a", 9), (B, BOUNDS): gone})
    sums = await sums_of(servers, await servers.brokers(), "t")
    assert sums == {"kept": 9, "written": 9, "in": None, "last_ms": 5}
    servers.answers[B, BOUNDS] = Refused(ResponseCode.SYSTEM_BUSY, "busy")
    with pytest.raises(Refused, match="busy"):
        await sums_of(servers, await servers.brokers(), "t")


async def test_a_broker_that_is_gone_leaves_its_queues_without_bounds() -> None:
    servers = Scripted(
        {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(perm=4),
            (A, BOUNDS): bounds("a", 9),
            (B, BOUNDS): NotConnected(B, "refused"),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": []},
            RequestCode.GET_ALL_PRODUCER_INFO: {"data": {}},
        }
    )
    found = await one_topic(servers, "t")
    assert [(each["broker"], each["max"]) for each in found["queues"]] == [("a", 9), ("b", None)]
    assert [(each["readable"], each["writable"]) for each in found["queues"]] == [(True, False)] * 2
    assert found["message"] == f"WARNING: {B}: refused; {NotConnected.REMEDY}"


@pytest.mark.parametrize(
    ("stats", "members", "groups"),
    [
        ({}, [], ["g"]),
        (progress("a", 9, 4), [], ["g", "t"]),
        ({}, [{"clientId": "c"}], ["g", "t"]),
    ],
)
async def test_a_topic_is_a_group_only_where_it_has_offsets_or_members(
    stats: dict[str, Any], members: list[dict[str, Any]], groups: list[str]
) -> None:
    servers = Scripted(
        {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": ["g", "t"]},
            PROGRESS: stats,
            MEMBERS: {"connectionSet": members},
        }
    )
    assert await groups_of(servers, "t", await servers.brokers(), Warnings()) == groups


UNKNOWN = Refused(ResponseCode.SYSTEM_ERROR, "THe consumer group <g> not exist")
FOUND = Command(0, 0, {"offset": "2"})
DONE = Command(0, 0)


def consumed() -> Scripted:
    return Scripted(
        {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(),
            (A, PROGRESS): progress("a", 9, 4),
            (B, PROGRESS): {"offsetTable": {}},
            (B, BOUNDS): bounds("b", 3),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: FOUND,
            RequestCode.GET_MAX_OFFSET: Command(0, 0, {"offset": "3"}),
            (A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET): DONE,
            (B, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET): UNKNOWN,
            (A, MEMBERS): {"connectionSet": [{"clientId": "c"}]},
            (B, MEMBERS): OFFLINE,
            RequestCode.UPDATE_CONSUMER_OFFSET: DONE,
        }
    )


def changes(scripted: Scripted) -> list[tuple[str, RequestCode]]:
    wanted = (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET)
    return sorted((address, code) for address, code, _ in scripted.asked if code in wanted)


async def test_a_preview_changes_nothing() -> None:
    scripted = consumed()
    found = await preview(scripted, "g", "t", 1000)
    rows = [(each["broker"], each["committed"], each["wanted"]) for each in found["queues"]]
    assert rows == [("a", 4, 2), ("b", 0, 2)]
    found = await preview(scripted, "g", "t", TO_THE_END)
    assert [each["wanted"] for each in found["queues"]] == [3, 3]
    assert changes(scripted) == []


async def test_members_are_told_and_where_there_are_none_offsets_are_committed() -> None:
    scripted = consumed()
    found = await reset(scripted, "g", "t", 1000)
    assert found["members_told"]
    assert changes(scripted) == [
        (A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET),
        (B, RequestCode.UPDATE_CONSUMER_OFFSET),
    ]


async def test_members_that_leave_meanwhile_are_none() -> None:
    scripted = consumed()
    scripted.answers[A, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = OFFLINE
    assert not (await reset(scripted, "g", "t", 1000))["members_told"]


async def test_nothing_changed_is_an_error_and_no_warning() -> None:
    scripted = consumed()
    scripted.answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = Refused(1, "no")
    with pytest.raises(NoAnswerError, match="nothing was changed: broker a: CODE: 1"):
        await reset(scripted, "g", "t", 1000)
    assert changes(scripted) == []


MEMBER = {"clientId": "c@1", "clientAddr": "10.0.0.1:5", "language": "JAVA", "version": 401}
ONLINE = {
    "connectionSet": [MEMBER], "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "subscriptionTable": {"t": {"topic": "t", "subString": "a || b", "expressionType": "TAG"}},
}  # fmt: skip
HELD = {"locked": True, "cachedMsgCount": 3, "lastPullTimestamp": 9}
RUNNING = {
    "properties": {"PROP_CONSUMEORDERLY": "true", "PROP_CONSUMER_START_TIMESTAMP": "5"},
    "mqTable": {MessageQueue("a", 0, "t"): HELD},
    "statusTable": {"t": {"consumeOKTPS": 2.5, "consumeRT": 4}},
}


def servers(**more: object) -> Scripted:
    return Scripted(
        {
            (A, MEMBERS): ONLINE,
            (B, MEMBERS): OFFLINE,
            (A, PROGRESS): progress("a", 9, 4),
            (B, PROGRESS): progress("b", 3, 3),
            STATS: {"consumeStatsList": [{"g": [progress("a", 9, 4)]}]},
            SETTINGS: {"subscriptionGroupTable": {"g": {"groupName": "g", "retryMaxTimes": 7}}},
            RequestCode.GET_CONSUMER_RUNNING_INFO: RUNNING,
            TOPICS: {"topicList": ["%DLQ%g", "t"]},
            BOUNDS: bounds("a", 2, topic="%DLQ%g"),
            **more,
        }
    )


async def test_the_list_counts_members() -> None:
    scripted = servers()
    (group,) = (await all_groups(scripted, GroupRates()))["groups"]
    assert (group["group"], group["members"], group["lag"]) == ("g", 1, 10)
    assert (group["type"], group["topics"]) == ("CONSUME_PASSIVELY", ["t"])
    scripted.answers[STATS] = {"consumeStatsList": []}  # it has consumed nothing yet
    (group,) = (await all_groups(scripted, GroupRates()))["groups"]
    assert (group["group"], group["lag"]) == ("g", 0)


async def test_the_list_and_the_page_give_the_same_verdicts() -> None:
    settings = {"g": {"groupName": "g", "consumeEnable": False}}
    scripted, rates = servers(), GroupRates()
    scripted.answers[SETTINGS] = {"subscriptionGroupTable": settings}
    scripted.answers[B, STATS] = {"consumeStatsList": [{"g": [progress("b", 3, 3)]}]}
    (row,) = (await all_groups(scripted, rates))["groups"]
    assert [each["kind"] for each in row["verdicts"]] == ["disabled", "letters"]
    assert (await one_group(scripted, rates, "g"))["verdicts"] == row["verdicts"]


async def test_a_group_with_its_members_and_who_has_which_queue() -> None:
    found = await one_group(servers(), GroupRates(), "g")
    (member,) = found["members"]
    assert (member["client"], member["language"], member["version"]) == ("c@1", "JAVA", "V4_9_4")
    assert (member["queues"], member["orderly"]) == (1, True)
    assert member["topics"][0]["ok_rate"] == 2.5
    first, second = found["queues"]
    assert (first["lag"], first["held"]["client"], first["held"]["locked"]) == (5, "c@1", True)
    assert (second["lag"], second["held"]) == (0, None)
    assert found["subscriptions"] == [{"topic": "t", "expression": "a || b", "type": "TAG"}]
    assert [each["retries"] for each in found["configs"]] == [7, 7]
    assert (found["letters"], found["retries"]) == (4, 4)


async def test_a_member_that_says_nothing_holds_nobody_knows_what() -> None:
    refused = Refused(ResponseCode.SYSTEM_ERROR, "no answer")
    scripted = servers()
    scripted.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = refused
    found = await one_group(scripted, GroupRates(), "g")
    assert found["members"][0]["queues"] is None
    assert found["message"] == ""


async def test_a_group_that_no_broker_knows_is_not_found() -> None:
    scripted = Scripted(
        {
            MEMBERS: OFFLINE,
            PROGRESS: {"offsetTable": {}},
            SETTINGS: {"subscriptionGroupTable": {}},
        }
    )
    with pytest.raises(ApiError, match="GROUP_NOT_FOUND"):
        await one_group(scripted, GroupRates(), "g")


async def test_the_letters_of_each_group_are_those_of_all_brokers() -> None:
    servers = Scripted(
        {
            TOPICS: {"topicList": ["%DLQ%g", "t"]},
            (A, BOUNDS): bounds("a", 3, topic="%DLQ%g"),
            (B, BOUNDS): Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
        }
    )
    warnings = Warnings()
    found = await dead_letter_counts(servers, await servers.brokers(), warnings)
    assert (found, warnings.message) == ({"g": DeadLetterCount(3, 5)}, "")


class Nodes:
    """Nodes of NSQ on 127.0.0.1 with a RocketMQ port each, which is their name's value."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.addresses = Addresses((), tuple(f"127.0.0.1:{port + 1}" for port in ports.values()))
        self.ports = ports
        self.http = self

    async def get(self, address: str, target: str, kind: type[Machine]) -> Machine:
        assert target == "/node"
        return Machine(ports={"tcp": 1, "rocketmq": int(address.rpartition(":")[2]) - 1})

    async def producers(self, warnings: Warnings, *, with_topics: bool) -> list[Producer]:
        return [
            Producer(hostname="node", broadcast_address="127.0.0.1", http_port=port + 1)
            for port in self.ports.values()
        ]


def beside(scripted: Scripted, **ports: int) -> OtherBrokers:
    nodes: Any = Nodes(ports)
    return OtherBrokers(scripted, nodes)


async def test_groups_of_brokers_are_as_those_of_nodes() -> None:
    told = [progress("a", 9, 4), progress("a", 2, 0, topic="u"),
            progress("a", 1, 1, topic="%RETRY%g")]  # fmt: skip
    scripted = servers()
    scripted.answers[STATS] = {"consumeStatsList": [{"g": told}]}
    warnings = Warnings()
    found = whole_groups(await beside(scripted).groups(warnings))
    assert warnings.errors == []
    assert [(each.topic, each.group, each.kind, each.lag, each.rate) for each in found] == [
        ("t", "g", "rocketmq", 10, 2.0), ("u", "g", "rocketmq", 4, 2.0)
    ]  # fmt: skip
    (first, second) = found[0].nodes
    assert (first.node, first.lag, first.committed, first.end) == ("a", 5, {"0": 4}, 9)
    assert (first.clients, second.clients) == (1, 0)


async def test_a_broker_that_is_a_port_of_a_node_is_left_out() -> None:
    scripted = servers()
    assert await beside(scripted, one=10911).are_nodes() >= {"127.0.0.1:10911"}
    told = await beside(scripted, one=10911).groups(Warnings())
    assert {broker for broker, _ in told} == {"b"}
    assert await beside(scripted, one=10911, two=10921).groups(Warnings()) == []


async def test_without_name_servers_there_is_a_warning() -> None:
    scripted = servers()
    scripted.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = NoAnswerError("no name server")
    warnings = Warnings()
    assert await beside(scripted).groups(warnings) == []
    assert warnings.errors == ["no name server"]


async def test_a_lag_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(Scripted, "now_ms", property(lambda self: now * 1000))
    scripted = servers()
    others = beside(scripted)
    assert others.growth("t", "g") is None
    for look in range(20):
        now += 10
        scripted.answers[STATS] = {
            "consumeStatsList": [{"g": [progress("a", 100 * look, 50 * look)]}]
        }
        await others.groups(Warnings())
    # Two brokers tell the same, 5 messages a second each.
    assert others.growth("t", "g") == pytest.approx(10)
    scripted.answers[STATS] = {"consumeStatsList": []}
    await others.groups(Warnings())
    assert others.growth("t", "g") is None


async def test_groups_letters_and_brokers_lead_to_their_pages() -> None:
    scripted = servers()
    scripted.answers |= {
        (A, MEMBERS): OFFLINE,
        (A, RUNTIME): {"table": {"putTps": "20.0 1 1", "getTransferedTps": "18.5 1 1"}},
        (B, RUNTIME): NotConnected(B, "refused"),
    }
    found = await attention(scripted, GroupRates(), beside(scripted))
    assert (found["topics"], found["groups"], found["lag"]) == (1, ["g"], 10)
    assert [(each["kind"], each["page"], each["names"]) for each in found["items"]] == [
        ("unattended", "rocketgroup", ["g"]),
        ("letters", "rockettopic", ["%DLQ%g"]),
        ("silent", "rocketbroker", ["b"]),
    ]
    assert [each.get("topics") for each in found["items"]] == [["t"], ["t"], None]
    assert found["beside"] == {"brokers": ["a", "b"], "topics": ["t"], "in": 20.0, "out": 18.5}


async def test_a_broker_that_is_a_node_is_none_beside_the_nodes() -> None:
    scripted = servers()
    scripted.answers[RUNTIME] = {"table": {"putTps": "7 7 7"}}
    found = await attention(scripted, GroupRates(), beside(scripted, rocketmq=10911))
    assert (found["beside"]["brokers"], found["beside"]["in"]) == (["b"], 7)
    both = beside(scripted, rocketmq=10911, other=10921)
    found = await attention(scripted, GroupRates(), both)
    assert found["beside"] == {"brokers": [], "topics": [], "in": 0.0, "out": 0.0}


def rate(came: int, out: int) -> GroupRate:
    """What comes and goes in a second."""
    found = GroupRate()
    for time_s in range(0, 60, 10):
        found.take(time_s, came * time_s, out * time_s)
    return found


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        (GroupFacts(0, 0), []),
        (GroupFacts(5, 0), ["unattended warn"]),
        (GroupFacts(1000, 0), ["unattended bad"]),
        (GroupFacts(1000, 0, "BROADCASTING"), []),
        (GroupFacts(999, 1, rate=rate(9, 1)), []),
        (GroupFacts(1000, 1), ["unknown warn"]),
        (GroupFacts(1000, 1, rate=rate(9, 1)), ["growing bad"]),
        (GroupFacts(1000, 1, rate=rate(100, 99)), ["level warn"]),
        (GroupFacts(1000, 1, rate=rate(1, 2)), []),
        (GroupFacts(80_000, None, rate=rate(1, 2)), ["catching_up warn"]),
        (GroupFacts(5, 0, consumes=False), ["disabled warn"]),
        (GroupFacts(0, 0, consumes=False), []),
        (GroupFacts(5, 0, letters=2), ["unattended warn", "letters warn"]),
    ],
)
def test_groups(facts: GroupFacts, kinds: list[str]) -> None:
    assert [f"{each['kind']} {each['level']}" for each in of_group(facts)] == kinds


def test_the_figures_that_words_are_made_of() -> None:
    (verdict,) = of_group(GroupFacts(80_000, 1, rate=rate(1, 2)))
    assert (verdict["depth"], verdict["growth"], verdict["seconds"]) == (80_000, -1, 80_000)
    (letters,) = of_group(GroupFacts(0, 1, letters=3, letter_ms=9))
    assert (letters["letters"], letters["last_ms"]) == (3, 9)
    assert of_server(answers=True) == []
    assert of_server(answers=False)[0]["kind"] == "silent"


@pytest.mark.parametrize(
    ("share", "levels"),
    [(None, []), (-1.0, []), (0.74, []), (0.75, ["warn"]), (0.85, ["bad"])],
)
def test_disks(share: float | None, levels: list[str]) -> None:
    verdicts: list[dict[str, Any]] = of_disk(share)
    assert [each["level"] for each in verdicts] == levels
