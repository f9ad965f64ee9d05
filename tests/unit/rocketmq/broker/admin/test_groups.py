"""How far groups are and how far behind, and how they are set to another place."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.admin import offset_reset
from penstock.rocketmq.broker.pop.pop_orders import OpenBatch
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.consumer_offsets import FAR
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import queue_key, store
from tests.unit.rocketmq.broker.peers import FakePeer, Told, ask, ask_json, ask_later, join, refused
from tests.unit.rocketmq.broker.popping import popper


@pytest.fixture
def topic(services: Services) -> str:
    """A topic with two queues."""
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    return "T"


def stats_of(services: Services, **fields: Any) -> Any:
    return ask_json(services, Code.GET_CONSUME_STATS, **{"consumerGroup": "G", **fields})


def clone(services: Services, target: str, offline: str = "false", **fields: Any) -> list[str]:
    """Copy G's offsets; the topics in which the other group has some then."""
    fields = {"srcGroup": "G", "destGroup": target, "offline": offline, **fields}
    assert ask(services, Code.CLONE_GROUP_OFFSET, **fields).code == 0
    return services.offsets.topics_of(target)


async def test_offsets_of_a_group(services: Services, topic: str, clock: FakeClock) -> None:
    first_ms = services.now_ms
    await store(services, topic, 0, b"1")
    clock.advance(SECOND)
    await store(services, topic, 0, b"2", b"3")
    services.offsets.commit(topic, "G", 0, 1)
    first, second = (queue_key(services, topic, queue) for queue in (0, 1))
    expected = {
        "consumeTps": 0.0,
        "offsetTable": {
            first: {"brokerOffset": 3, "consumerOffset": 1, "lastTimestamp": first_ms},
            second: {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0},
        },
    }
    assert stats_of(services, topic=topic) == stats_of(services) == expected
    assert stats_of(services, consumerGroup="H") == {"consumeTps": 0.0, "offsetTable": {}}
    services.offsets.commit(topic, "G", 0, 3)
    assert stats_of(services)["offsetTable"][first]["lastTimestamp"] == first_ms + 1000


def test_topics_that_a_group_gave_up_or_that_are_gone_are_left_out(
    services: Services, topic: str
) -> None:
    services.offsets.commit(topic, "G", 0, 1)
    services.offsets.commit("gone", "G", 0, 1)
    assert len(stats_of(services)["offsetTable"]) == 2
    join(services, "c", "G", topic="U")
    assert stats_of(services)["offsetTable"] == {}
    assert stats_of(services, topic=topic)["offsetTable"] == {}


def test_the_rate_is_of_the_last_minute(services: Services, topic: str, clock: FakeClock) -> None:
    services.stats.tick()
    services.offsets.commit(topic, "G", 0, 0)
    services.stats.got(topic, "G", 30, 1)
    clock.advance(10 * SECOND)
    services.stats.tick()
    assert stats_of(services)["consumeTps"] == 3.0


async def test_all_groups_of_the_broker(services: Services, topic: str) -> None:
    await store(services, topic, 1, b"1", b"2", b"3")
    services.topics.put(TopicConfig("ordered", 1, 1, order=True), services.now_ms)
    for group in ("G", "idle"):
        services.groups.put(GroupConfig(group), services.now_ms)
    services.offsets.commit(topic, "G", 1, 1)
    services.offsets.commit("ordered", "G", 0, 0)

    def all_stats(is_order: str) -> tuple[Any, dict[str, Any]]:
        value = ask_json(services, Code.GET_BROKER_CONSUME_STATS, isOrder=is_order)
        return value, {name: tables for group in value["consumeStatsList"]
                       for name, tables in group.items()}  # fmt: skip

    value, found = all_stats("false")
    assert (value["brokerAddr"], value["totalDiff"]) == (str(services.address), 2)
    assert found["idle"] == []
    tables = [each["offsetTable"] for each in found["G"]]
    assert [len(table) for table in tables] == [2, 1]
    assert tables[0][queue_key(services, topic, 1)]["consumerOffset"] == 1
    (ordered,) = all_stats("true")[1]["G"]
    assert list(ordered["offsetTable"]) == [queue_key(services, "ordered", 0)]
    with pytest.raises(BodyError, match="isOrder is missing"):
        ask(services, Code.GET_BROKER_CONSUME_STATS)


async def test_the_times_that_a_backlog_spans(
    services: Services, topic: str, clock: FakeClock
) -> None:
    start_ms = 1_795_218_354_882
    clock.set_wall(start_ms * 1_000_000)
    for body in (b"1", b"2", b"3"):
        await store(services, topic, 0, body)
        clock.advance(SECOND)
    services.offsets.commit(topic, "G", 0, 2)
    code = Code.QUERY_CONSUME_TIME_SPAN
    full, empty = ask_json(services, code, topic=topic, group="G")["consumeTimeSpanSet"]

    def times(span: dict[str, Any]) -> list[int]:
        return [span[f"{name}TimeStamp"] for name in ("min", "consume", "max")]

    assert times(full) == [start_ms, start_ms + 1000, start_ms + 2000]
    assert full["delayTime"] == 1000
    broker = services.settings.broker_name
    assert full["messageQueue"] == {"brokerName": broker, "queueId": 0, "topic": topic}
    assert full["minTimeStampStr"].startswith("2026-11-2")
    assert full["minTimeStampStr"].endswith(":54:882")
    assert (times(empty), empty["delayTime"]) == ([-1, -1, -1], 0)
    assert empty["maxTimeStampStr"].endswith(":59:999")
    span, _ = ask_json(services, code, topic=topic, group="new")["consumeTimeSpanSet"]
    assert times(span)[:2] == [start_ms, start_ms], "a group that has never consumed"
    assert span["delayTime"] == 3000
    with refused(ResponseCode.TOPIC_NOT_EXIST, r"topic\[Nope\] not exist"):
        ask(services, code, topic="Nope", group="G")


def test_the_least_offsets_of_all_groups(services: Services, topic: str) -> None:
    for group, offsets in {"A": (5, 9), "B": (3, 8), "C": (1, 1)}.items():
        for queue, offset in enumerate(offsets):
            services.offsets.commit(topic, group, queue, offset)
    for fields, least in (
        ({"compareGroup": "A"}, {0: 1, 1: 1}),
        ({"compareGroup": "A", "filterGroups": "C,X"}, {0: 3, 1: 8}),
        ({"compareGroup": "C", "filterGroups": "C"}, {0: FAR, 1: FAR}),
    ):
        found = ask_json(services, Code.QUERY_CORRECTION_OFFSET, topic=topic, **fields)
        assert found == {"correctionOffsets": least}


def test_offsets_are_copied_to_another_group(services: Services, topic: str) -> None:
    services.topics.put(TopicConfig("U", 1, 1), services.now_ms)
    for name, offset in ((topic, 5), ("U", 7), ("gone", 9)):
        services.offsets.commit(name, "G", 0, offset)
    assert clone(services, "one", topic=topic) == [topic]
    assert clone(services, "all") == [topic, "U"]
    assert services.offsets.query("U", "all", 0) == 7
    join(services, "c", "G", topic="U")
    assert clone(services, "online") == ["U"]
    assert clone(services, "offline", "true") == [topic, "U"]


async def test_a_group_that_pops_in_order_goes_on_where_the_other_is(
    services: Services, topic: str
) -> None:
    services.offsets.commit(topic, "G", 0, 2)
    services.offsets.commit(topic, "popping", 0, 5)
    ordered, key = services.pops.ordered, (topic, "popping")
    ordered.table.enter(key)
    ordered.table.put(key, 0, OpenBatch([5, 6], 1000, 60_000))
    clone(services, "popping", "true", topic=topic)
    ordered.finish(key, 0, [5, 6], 1000)  # too late: that would be behind messages not had yet
    assert services.offsets.query(topic, "popping", 0) == 2


# --- resets ---------------------------------------------------------------------------------------


@pytest.fixture
async def backlog(services: Services) -> None:
    """Two queues of topic T, with 5 and 3 messages; the group G is at 2 and 3."""
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    for queue, count, offset in ((0, 5, 2), (1, 3, 3)):
        for _ in range(count):
            await services.publisher.publish_one(Draft("T", queue, b"x"))
        services.offsets.commit("T", "G", queue, offset)


def reset(services: Services, ms: int = 0, force: bool = False, /, **fields: Any) -> Command:
    fields = {"topic": "T", "group": "G", "timestamp": ms, "isForce": str(force).lower(), **fields}
    return ask(services, Code.INVOKE_BROKER_TO_RESET_OFFSET, **fields)


def by_queue(body: bytes) -> dict[int, int]:
    table = fastjson.loads(body)["offsetTable"]
    return {dict(key)["queueId"]: offset for key, offset in table.items()}


def told_to_reset(peer: FakePeer) -> Told:
    """What a member is told, once."""
    (told,) = (told for told in peer.told if told.code == Code.RESET_CONSUMER_CLIENT_OFFSET)
    return told


@pytest.mark.usefixtures("backlog")
@pytest.mark.parametrize(
    ("ms", "force", "wanted"),
    [(0, False, {0: 0, 1: 0}), (-1, False, {0: 2, 1: 3}), (-1, True, {0: 5, 1: 3}),
     (1 << 50, False, {0: 2, 1: 2}), (1 << 50, True, {0: 4, 1: 2})],
)  # fmt: skip
def test_members_are_told_the_new_offsets(
    services: Services, ms: int, force: bool, wanted: dict[int, int]
) -> None:
    peers = [join(services, "c1"), join(services, "c2")]
    answer = reset(services, ms, force)
    assert (answer.code, by_queue(answer.body)) == (0, wanted)
    fields = {"topic": "T", "group": "G", "timestamp": str(ms), "isForce": str(force).lower()}
    for told in map(told_to_reset, peers):
        assert (told.ext, by_queue(told.body)) == (fields, wanted)
    assert services.offsets.query("T", "G", 0) == 2, "members commit it themselves"


@pytest.mark.usefixtures("backlog")
@pytest.mark.parametrize(
    ("fields", "wanted"),
    [({"offset": 4}, 4), ({"offset": 5}, 5), ({"offset": 0}, 0), ({}, 0), ({"offset": -1}, 0),
     ({"timestamp": -1}, 5), ({"offset": 3, "timestamp": -1}, 3)],
)  # fmt: skip
def test_one_queue_alone(services: Services, fields: dict[str, int], wanted: int) -> None:
    """As 5.3's mqadmin asks with -q and -o, whether members are online or not."""
    services.groups.put(GroupConfig("G"), services.now_ms)
    answer = reset(services, queueId=0, **fields)
    assert (answer.code, by_queue(answer.body)) == (0, {0: wanted})
    assert services.offsets.of("T", "G") == {0: wanted, 1: 3}
    peer = join(services, "c1")
    services.offsets.commit("T", "G", 0, 2)
    assert by_queue(reset(services, queueId=0, **fields).body) == {0: wanted}
    told = by_queue(told_to_reset(peer).body)
    assert told == {0: wanted}, "members keep their other queues"


@pytest.mark.usefixtures("backlog")
async def test_a_group_that_pops_goes_on_there_though_nobody_is_online(services: Services) -> None:
    """How its channel is moved is for pop/test_popping.py to show."""
    services.groups.put(GroupConfig("G"), services.now_ms)
    channel = popper(services)
    services.pops.commit()
    assert reset(services, offset_reset.LATEST, True).code == 0
    assert channel.channel.state.floor() == 8
    assert services.offsets.of("T", "G") == {0: 5, 1: 3}
    assert reset(services).code == 0
    assert channel.channel.state.cursor == 0
    assert reset(services, queueId=1, offset=3).code == 0
    assert channel.channel.state.unfinished_count == 5, "queue 0"
    assert services.pops.in_order("T", "G", from_end=False) == 2
    assert reset(services, queueId=0, offset=2).code == 0
    assert services.offsets.query("T", "G", 0) == 2


@pytest.mark.usefixtures("backlog")
def test_an_administrator_in_cpp_wants_a_list(services: Services) -> None:
    peer = join(services, "c1")
    answer = reset(services, language=Language.CPP)
    assert by_queue(answer.body) == {0: 0, 1: 0}
    name = services.settings.broker_name
    assert fastjson.loads(told_to_reset(peer).body)["offsetTable"] == [
        {"brokerName": name, "offset": 0, "queueId": queue, "topic": "T"} for queue in (0, 1)
    ]


@pytest.mark.usefixtures("backlog")
def test_what_cannot_be_reset(services: Services) -> None:
    with refused(ResponseCode.CONSUMER_NOT_ONLINE, "Consumer not online"):
        reset(services)
    old, new = join(services, "old", client_version=27), join(services, "new")
    with refused(ResponseCode.SYSTEM_ERROR, "does not support this feature"):
        reset(services)
    assert Code.RESET_CONSUMER_CLIENT_OFFSET not in old.told_codes + new.told_codes
    services.topics.put(TopicConfig("T", 3, 3), services.now_ms)
    with refused(ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist"):
        reset(services)
    services.topics.delete("T", 0)
    with refused(ResponseCode.SYSTEM_ERROR, "no topic in this broker"):
        reset(services)


@pytest.mark.usefixtures("backlog")
def test_one_queue_that_cannot_be_reset(services: Services) -> None:
    asked = {"queueId": 0, "offset": 6}
    with refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "^Group G does not exist$"):
        reset(services, **asked)
    services.groups.put(GroupConfig("G"), 0)
    words = r"^Target offset 6 not in consume queue range \[0-5\]$"
    with refused(ResponseCode.SYSTEM_ERROR, words):
        reset(services, **asked)
    services.topics.delete("T", 0)
    with refused(ResponseCode.TOPIC_NOT_EXIST, "^Topic T does not exist$"):
        reset(services, **asked)
    assert services.offsets.of("T", "G") == {0: 2, 1: 3}


async def status(services: Services, **fields: Any) -> dict[str, Any]:
    code = Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    value = fastjson.loads((await ask_later(services, code, topic="T", group="G", **fields)).body)
    assert value["messageQueueTable"] == {}
    return dict(value["consumerTable"])


async def test_where_members_are(services: Services) -> None:
    queue = b'{"brokerName":"b","queueId":0,"topic":"T"}'
    nobody = r"No Any Consumer online in the consumer group: \[G\]"
    with refused(ResponseCode.SYSTEM_ERROR, nobody):
        await status(services)

    def reply(told: Told) -> Command:
        assert (told.code, told.ext) == (221, {"topic": "T", "group": "G"})
        return Command(0, body=b'{"consumerTable":{},"messageQueueTable":{' + queue + b":7}}")

    join(services, "c1", peer=FakePeer(reply))
    join(services, "silent")
    join(services, "odd", peer=FakePeer(lambda told: Command(0, body=b"{")))
    join(services, "refusing", peer=FakePeer(lambda told: Command(1)))
    found = await status(services)
    assert list(found) == ["c1"]
    assert list(found["c1"].values()) == [7]
    assert await status(services, clientAddr="c1") == found
    assert await status(services, clientAddr="silent") == {}
