"""Resetting offsets, and asking members for theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.rocketmq.broker.admin import offset_reset
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    Told,
    answered,
    answered_later,
    hand_over,
    heartbeat,
    request,
)
from tests.unit.rocketmq.broker.popping import Request, popper, with_pops


@pytest.fixture
def topic(services: Services) -> str:
    """Two queues, with 5 and 3 messages; the group G is at 2 and 3."""
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)

    async def put() -> None:
        for queue in (0, 0, 0, 0, 0, 1, 1, 1):
            await services.publisher.publish_one(Draft("T", queue, b"x"))

    asyncio.run(put())
    services.offsets.commit("T", "G", 0, 2)
    services.offsets.commit("T", "G", 1, 3)
    return "T"


def join(
    services: Services, client_id: str, peer: FakePeer | None = None, version: int = 409
) -> FakePeer:
    peer = peer or FakePeer()
    beat = request(34, heartbeat(client_id, "G"), version=version)
    services.topics.make_inner("%RETRY%G", 1, 0)
    hand_over(services, peer.connection, beat)
    peer.told.clear()
    return peer


def reset(
    services: Services, ms: int, force: bool = False, language: Language = Language.JAVA
) -> Command:
    asked = request(222, language=language, topic="T", group="G", timestamp=ms,
                    isForce=str(force).lower())  # fmt: skip
    return answered(services, FakePeer().connection, asked)


def by_queue(body: bytes) -> dict[int, int]:
    table = fastjson.loads(body)["offsetTable"]
    return {dict(key)["queueId"]: offset for key, offset in table.items()}


@pytest.mark.parametrize(
    ("ms", "force", "wanted"),
    [(0, False, {0: 0, 1: 0}), (-1, False, {0: 2, 1: 3}), (-1, True, {0: 5, 1: 3}),
     (1 << 50, False, {0: 2, 1: 2}), (1 << 50, True, {0: 4, 1: 2})],
)  # fmt: skip
def test_members_are_told_the_new_offsets(
    services: Services, topic: str, ms: int, force: bool, wanted: dict[int, int]
) -> None:
    peers = [join(services, "c1"), join(services, "c2")]
    answer = reset(services, ms, force)
    assert (answer.code, by_queue(answer.body)) == (0, wanted)
    for peer in peers:
        (told,) = (told for told in peer.told if told.code == 220)
        assert told.ext == {"topic": "T", "group": "G", "timestamp": str(ms),
                            "isForce": str(force).lower()}  # fmt: skip
        assert by_queue(told.body) == wanted
    assert services.offsets.query("T", "G", 0) == 2, "members commit it themselves"


def reset_one(services: Services, queue: int = 0, **fields: Any) -> Command:
    asked = request(222, topic="T", group="G", queueId=queue, isForce="false",
                    **{"timestamp": 0, **fields})  # fmt: skip
    return answered(services, FakePeer().connection, asked)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [({"offset": 4}, 4), ({"offset": 5}, 5), ({"offset": 0}, 0), ({}, 0), ({"offset": -1}, 0),
     ({"timestamp": -1}, 5), ({"offset": 3, "timestamp": -1}, 3)],
)  # fmt: skip
def test_one_queue_alone(
    services: Services, topic: str, fields: dict[str, int], wanted: int
) -> None:
    """As 5.3's mqadmin asks with -q and -o, whether members are online or not."""
    services.groups.put(GroupConfig("G"), services.now_ms)
    answer = reset_one(services, **fields)
    assert (answer.code, by_queue(answer.body)) == (0, {0: wanted})
    assert services.offsets.of("T", "G") == {0: wanted, 1: 3}
    peer = join(services, "c1")
    services.offsets.commit("T", "G", 0, 2)
    assert by_queue(reset_one(services, **fields).body) == {0: wanted}
    (told,) = (told for told in peer.told if told.code == 220)
    assert by_queue(told.body) == {0: wanted}, "members keep their other queues"


def test_one_queue_that_cannot_be_reset(services: Services, topic: str) -> None:
    def refused() -> tuple[int, str]:
        with pytest.raises(RefusedError) as refusal:
            reset_one(services, offset=6)
        return refusal.value.code, str(refusal.value)

    assert refused() == (26, "Group G does not exist")
    services.groups.put(GroupConfig("G"), 0)
    assert refused() == (1, "Target offset 6 not in consume queue range [0-5]")
    services.topics.delete("T", 0)
    assert refused() == (17, "Topic T does not exist")
    assert services.offsets.of("T", "G") == {0: 2, 1: 3}


async def test_one_queue_of_a_group_that_pops(services: Services) -> None:
    pops = with_pops(services, queues=2)
    services.groups.put(GroupConfig("G"), services.now_ms)
    await store(services, "T", 0, b"a", b"b", b"c")
    await store(services, "T", 1, b"d")
    first, again = Request(), Request()
    popper(services).wait(first, 1000)
    await asyncio.sleep(0)
    popper(services).finish([each.offset for each in first.popped])
    assert reset_one(services, offset=1).code == 0
    popper(services).wait(again, 1000)
    await asyncio.sleep(0)
    assert again.bodies == [b"b", b"c"]
    assert services.offsets.query("T", "G", 0) == 1
    assert pops.in_order("T", "G", from_end=False) == 2
    assert reset_one(services, offset=2).code == 0
    assert services.offsets.query("T", "G", 0) == 2


async def test_a_group_that_pops_goes_on_there_though_nobody_is_online(
    services: Services,
) -> None:
    with_pops(services, queues=2)
    await store(services, "T", 0, b"a", b"b")
    await store(services, "T", 1, b"c")
    channel = popper(services)
    services.pops.commit()
    assert reset(services, offset_reset.LATEST, force=True).code == 0
    assert channel.channel.state.floor() == 3
    assert services.offsets.of("T", "G") == {0: 2, 1: 1}
    assert reset(services, 0).code == 0
    assert channel.channel.state.cursor == 0


def test_an_administrator_in_cpp_wants_a_list(services: Services, topic: str) -> None:
    peer = join(services, "c1")
    answer = reset(services, 0, language=Language.CPP)
    assert by_queue(answer.body) == {0: 0, 1: 0}
    name = services.settings.broker_name
    assert fastjson.loads(peer.told[0].body)["offsetTable"] == [
        {"brokerName": name, "offset": 0, "queueId": queue, "topic": "T"} for queue in (0, 1)
    ]


def test_what_cannot_be_reset(services: Services, topic: str) -> None:
    with pytest.raises(RefusedError, match="Consumer not online") as refusal:
        reset(services, 0)
    assert refusal.value.code == 206
    old, new = join(services, "old", version=27), join(services, "new")
    with pytest.raises(RefusedError, match="does not support this feature"):
        reset(services, 0)
    assert 220 not in old.told_codes + new.told_codes
    services.topics.put(TopicConfig("T", 3, 3), services.now_ms)
    with pytest.raises(RefusedError, match="THe consumer group <G> not exist") as refusal:
        reset(services, 0)
    assert refusal.value.code == 1
    services.topics.delete("T", 0)
    with pytest.raises(RefusedError, match="no topic in this broker"):
        reset(services, 0)


def status(services: Services, **fields: Any) -> dict[str, Any]:
    asked = request(223, topic="T", group="G", **fields)
    answer = asyncio.run(answered_later(services, FakePeer().connection, asked))
    value = fastjson.loads(answer.body)
    assert value["messageQueueTable"] == {}
    return dict(value["consumerTable"])


def test_where_members_are(services: Services, topic: str) -> None:
    queue = b'{"brokerName":"b","queueId":0,"topic":"T"}'

    def reply(told: Told) -> Command:
        assert (told.code, told.ext) == (221, {"topic": "T", "group": "G"})
        return Command(0, body=b'{"consumerTable":{},"messageQueueTable":{' + queue + b":7}}")

    join(services, "c1", FakePeer(reply))
    join(services, "silent")
    join(services, "odd", FakePeer(lambda told: Command(0, body=b"{")))
    join(services, "refusing", FakePeer(lambda told: Command(1)))
    found = status(services)
    assert list(found) == ["c1"]
    assert list(found["c1"].values()) == [7]
    assert status(services, clientAddr="c1") == found
    assert status(services, clientAddr="silent") == {}


def test_nobody_to_ask(services: Services) -> None:
    with pytest.raises(RefusedError, match=r"No Any Consumer online in the consumer group: \[G\]"):
        status(services)
