from __future__ import annotations

from penstock.broker.consumer import Consumer, Delivery


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
