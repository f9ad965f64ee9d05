"""Groups in numbers."""

from __future__ import annotations

from penstock.rocketmq.broker.clients.group_figures import consumer_groups, producer_groups
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, hand_over, heartbeat, request


async def test_lag_and_members(controller: Controller) -> None:
    controller.topics.put(TopicConfig("T", 3, 3), controller.now_ms)
    await store(controller, "T", 0, b"a", b"b", b"c")
    await store(controller, "T", 1, b"d")
    for client, model in (("c1", "CLUSTERING"), ("c2", "CLUSTERING")):
        beat = heartbeat(client, "G", model=model, producers=("PG",))
        hand_over(controller, FakePeer().connection, request(34, beat))
    controller.offsets.commit("T", "G", 0, 1)
    controller.offsets.commit("T", "ahead", 0, 99)
    controller.offsets.commit("T", "ahead", 1, 1)
    ahead, group = sorted(consumer_groups(controller, "T"), key=lambda each: each.name == "G")
    assert (group.name, group.model, group.lag, group.rate) == ("G", "CLUSTERING", 3, 0.0)
    assert group.committed == {0: 1}
    assert [member.client_id for member in group.members] == ["c1", "c2"]
    assert (ahead.lag, ahead.members) == (0, [])
    (producers,) = producer_groups(controller)
    assert (producers.name, len(producers.members)) == ("PG", 2)


def test_a_topic_without_groups(controller: Controller) -> None:
    assert consumer_groups(controller, "T") == []
    assert producer_groups(controller) == []
