"""Groups in numbers."""

from __future__ import annotations

from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, hand_over, heartbeat, request


async def test_lag_and_members(services: Services) -> None:
    services.topics.put(TopicConfig("T", 3, 3), services.now_ms)
    await store(services, "T", 0, b"a", b"b", b"c")
    await store(services, "T", 1, b"d")
    for client, model in (("c1", "CLUSTERING"), ("c2", "CLUSTERING")):
        beat = heartbeat(client, "G", model=model, producers=("PG",))
        hand_over(services, FakePeer().connection, request(34, beat))
    services.offsets.commit("T", "G", 0, 1)
    services.offsets.commit("T", "ahead", 0, 99)
    services.offsets.commit("T", "ahead", 1, 1)
    ahead, group = sorted(
        services.group_figures.consumer_groups("T"), key=lambda each: each.name == "G"
    )
    assert (group.name, group.model, group.lag, group.rate) == ("G", "CLUSTERING", 3, 0.0)
    assert group.committed == {0: 1}
    assert [member.client_id for member in group.members] == ["c1", "c2"]
    assert (ahead.lag, ahead.members) == (0, [])
    (producers,) = services.group_figures.producer_groups()
    assert (producers.name, len(producers.members)) == ("PG", 2)


def test_a_topic_without_groups(services: Services) -> None:
    assert services.group_figures.consumer_groups("T") == []
    assert services.group_figures.producer_groups() == []
