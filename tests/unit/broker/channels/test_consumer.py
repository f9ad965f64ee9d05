from __future__ import annotations

from penstock.broker.channels.consumer import Consumer, Delivery, Locality
from tests.unit.broker.conftest import Reader, World


def deliver(deliveries: list[Delivery]) -> None:
    raise AssertionError("a consumer delivers nothing by itself")


def test_a_new_consumer_takes_nothing() -> None:
    consumer = Consumer(deliver, 100)
    assert consumer.room() == consumer.in_flight == 0


def test_ready_is_a_level() -> None:
    consumer = Consumer(deliver, 100)
    consumer.ready = 5
    consumer.flights.add(0, 3, 0)
    assert (consumer.room(), consumer.in_flight) == (2, 3)
    consumer.flights.finish(0, 2)
    assert (consumer.room(), consumer.ready) == (4, 5)
    consumer.ready = 0
    assert consumer.room() <= 0


def test_no_room_while_the_peer_does_not_read() -> None:
    consumer = Consumer(deliver, 100)
    consumer.ready = 5
    consumer.writable = False
    assert consumer.room() == 0
    consumer.writable = True
    assert consumer.room() == 5


# --- near ones first -----------------------------------------------------------------------------


def test_the_nearest_with_room_come_first(world: World) -> None:
    channel = world.channel()
    readers = {}
    for locality in (Locality.ANYWHERE, Locality.REGION, Locality.ZONE):
        reader = readers[locality] = Reader(world, channel, 0)
        channel.remove_consumer(reader.consumer)
        reader.consumer.locality = locality
        channel.add_consumer(reader.consumer)
        reader.ready(2)
    world.fill(5)
    assert readers[Locality.ZONE].offsets() == [0, 1]
    assert readers[Locality.REGION].offsets() == [2, 3]
    assert readers[Locality.ANYWHERE].offsets() == [4]
    assert channel.delivered_counts == [2, 2, 1]
    assert channel.delivered_count == 5
    readers[Locality.ZONE].leave()
    readers[Locality.REGION].finish(2, 3)
    world.fill(1)
    assert readers[Locality.REGION].offsets() == [5]
