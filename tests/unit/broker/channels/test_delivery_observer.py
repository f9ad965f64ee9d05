"""An observer of a channel hears of each delivery once, and once of its end."""

from __future__ import annotations

from penstock.broker.channels.consumer import Delivery
from penstock.broker.channels.delivery_observer import DeliveryObserver
from penstock.core.units import SECOND
from tests.unit.broker.conftest import TIMEOUT, Reader, World


class Notes(DeliveryObserver):
    """Writes all down."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def delivered(self, deliveries: list[Delivery]) -> None:
        self.heard += [("delivered", each.first, each.next, each.attempts) for each in deliveries]

    def finished(self, first: int, next_: int) -> None:
        self.heard.append(("finished", first, next_))

    def requeued(self, offset: int) -> None:
        self.heard.append(("requeued", offset))

    def timed_out(self, first: int, next_: int) -> None:
        self.heard.append(("timed out", first, next_))

    def emptied(self) -> None:
        self.heard.append(("emptied",))

    def take(self) -> list[tuple[object, ...]]:
        heard, self.heard = self.heard, []
        return heard


def test_every_end_of_a_delivery(world: World) -> None:
    channel = world.channel()
    notes = Notes()
    channel.observers.append(notes)
    reader = Reader(world, channel, 10)
    world.publish(b"a", b"b", b"c", b"d")
    reader.take()
    assert notes.take() == [("delivered", 0, 4, 1)]
    reader.finish(0, 1)
    reader.requeue(2)
    reader.take()
    assert notes.take() == [("finished", 0, 2), ("requeued", 2), ("delivered", 2, 3, 2)]
    reader.finish(2)
    world.wait(TIMEOUT + SECOND)
    assert notes.take() == [("finished", 2, 3), ("timed out", 3, 4), ("delivered", 3, 4, 2)]
    assert reader.finish(0, 2) == [0, 2]
    assert notes.take() == []
    channel.empty()
    assert notes.take() == [("emptied",)]
