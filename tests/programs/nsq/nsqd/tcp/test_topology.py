"""The cases of `nsq/nsqd/tcp/test_topology.py` that need a port or a process."""

from __future__ import annotations

from penstock.nsq.nsqd.tcp.topology import EXPERIMENT
from tests.programs.nsq.nsqd.conftest import Start, identify, pub


async def test_same_zone_first(start: Start) -> None:
    """NSQ spec 8.1, SameZoneConsumerV2; here also when all is published at once."""
    nsqd = await start(topology_zone="zone", topology_region="region",
                       enable_experiment=(EXPERIMENT,))  # fmt: skip
    clients = []
    for zone in ("zone2", "zone", "zone2", "zone"):
        client = await nsqd.connect()
        await client.ask(identify(topology_zone=zone, topology_region="region",
                                  feature_negotiation=True))  # fmt: skip
        await client.subscribe("t", ready=10)
        clients.append(client)

    async def ready() -> bool:
        found = await nsqd.channel("t")
        return [each["ready_count"] for each in found["clients"]] == [10] * 4

    await nsqd.until(ready)
    await nsqd.publish("t", *[b"m%d" % number for number in range(21)])
    channel = await nsqd.channel("t")
    assert channel["zone_local_msg_count"] == 20
    assert channel["region_local_msg_count"] == 1
    assert "global_msg_count" not in channel
    assert channel["in_flight_count"] == 21
    for client in (clients[1], clients[3]):
        await client.messages(10)


async def test_without_the_experiment_all_are_alike(start: Start) -> None:
    nsqd = await start(topology_zone="zone")
    client = await nsqd.connect()
    await client.ask(identify(topology_zone="zone", feature_negotiation=True))
    await client.subscribe("t", ready=5)
    producer = await nsqd.connect()
    await producer.ask(pub("t", b"m"))
    await client.message()
    channel = await nsqd.channel("t")
    assert channel["global_msg_count"] == 1
    assert "zone_local_msg_count" not in channel
