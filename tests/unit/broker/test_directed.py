"""Messages for one channel alone: the others pass them by, also after a restart."""

from __future__ import annotations

from penstock.broker.directed import directed_note
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.dead_letters import NotedBodies

from .conftest import Reader, World


def publish_to(world: World, channel: str, *bodies: bytes) -> None:
    records = NotedBodies(Bodies.from_list(bodies), directed_note(channel))
    world.topic.stage(records, 0, lambda error: None)
    world.topic.commit()


def test_one_channel_gets_them_and_the_others_what_comes_before_and_behind(world: World) -> None:
    bill, ship = world.channel("bill"), world.channel("ship")
    world.publish(b"before")
    publish_to(world, "bill", b"again", b"once more")
    world.publish(b"behind")
    assert (bill.state.unfinished_count, ship.state.unfinished_count) == (4, 2)
    assert Reader(world, bill, 9).offsets() == [0, 1, 2, 3]
    assert Reader(world, ship, 9).offsets() == [0, 3]


def test_it_is_so_after_a_restart(world: World) -> None:
    world.channel("bill")
    world.channel("ship")
    publish_to(world, "bill", b"again")
    world.publish(b"behind")
    world.restart()
    assert Reader(world, world.channel("ship"), 9).offsets() == [1]
    assert Reader(world, world.channel("bill"), 9).offsets() == [0, 1]


def test_messages_of_one_size_and_a_channel_that_is_not_there(world: World) -> None:
    ship = world.channel("ship")
    publish_to(world, "gone", b"a", b"b", b"c")
    assert ship.state.unfinished_count == 0
