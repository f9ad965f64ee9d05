from __future__ import annotations

import pytest

from penstock.broker.consumer import Locality
from penstock.nsq.nsqd.topology import EXPERIMENT, locality
from penstock.nsq.protocol.identify import Identity

from .conftest import Start, identify, options, pub


@pytest.mark.parametrize(
    ("zone", "region", "own_zone", "own_region", "expected"),
    [
        ("z", "r", "z", "r", Locality.ZONE),
        ("z", "other", "z", "r", Locality.ZONE),
        ("other", "r", "z", "r", Locality.REGION),
        ("other", "other", "z", "r", Locality.ANYWHERE),
        ("", "", "z", "r", Locality.ANYWHERE),
        ("", "", "", "", Locality.ANYWHERE),
        ("", "r", "", "r", Locality.REGION),
    ],
)
def test_localities(
    zone: str, region: str, own_zone: str, own_region: str, expected: Locality
) -> None:
    given = options("", topology_zone=own_zone, topology_region=own_region)
    identity = Identity("", "", 0, 0, 0, 0, topology_zone=zone, topology_region=region)
    assert locality(identity, given) is Locality.ANYWHERE
    given.enable_experiment = (EXPERIMENT,)
    assert locality(identity, given) is expected


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
