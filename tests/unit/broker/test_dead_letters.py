"""Messages that have had their attempts, the topics they go to, and the notes in them."""

from __future__ import annotations

import msgspec
import pytest

from penstock.broker.channels.spent import MOVE_MESSAGES_MAX, Spent, SpentRange
from penstock.broker.dead_letters import Origins, dead_letter_topic, decode_origins, encode_origins
from penstock.core.names import is_valid_name
from penstock.core.units import SECOND
from tests.unit.broker.conftest import TIMEOUT, Reader, World


@pytest.mark.parametrize(
    ("pattern", "topic", "name"),
    [
        ("%s.dead", "orders", "orders.dead"),
        ("graveyard", "orders", "graveyard"),
        ("dead-%s", "orders", "dead-orders"),
        ("%s.dead", "o" * 64, "o" * 59 + ".dead"),
        ("%s.dead", "orders#ephemeral", "orders.dead#ephemeral"),
        ("%s.dead", "o" * 54 + "#ephemeral", "o" * 49 + ".dead#ephemeral"),
        ("%s.dead#ephemeral", "orders", "orders.dead#ephemeral"),
    ],
)
def test_dead_letter_topics(pattern: str, topic: str, name: str) -> None:
    assert is_valid_name(name)
    assert dead_letter_topic(pattern, topic) == name


@pytest.mark.parametrize("pattern", ["", "%s %s", "%s%s", "x" * 65, "%s" + "x" * 65, "%d"])
def test_patterns_that_make_no_name(pattern: str) -> None:
    assert not is_valid_name(dead_letter_topic(pattern, "t"))


def test_a_note_comes_back() -> None:
    origins = Origins("t", "c", [1 << 62, 5], [3, 65535])
    assert decode_origins(encode_origins(origins)) == origins
    assert origins.reason == "max_attempts"
    of_an_earlier_version = msgspec.msgpack.encode(["t", "c", [1 << 62, 5], [3, 65535]])
    assert decode_origins(of_an_earlier_version) == origins
    assert decode_origins(b"") is None
    assert decode_origins(b"of another version") is None
    nested = b"\x95" + encode_origins(origins)[1:] + b"\x91" * 5000
    assert decode_origins(nested) is None


# --- the queue -----------------------------------------------------------------------------------
def test_what_is_being_moved_still_counts() -> None:
    spent = Spent()
    spent.add(0, 3, 5)
    spent.add(7, 8, 6)
    entries = spent.take(2)
    assert entries == [SpentRange(0, 2, 5)]
    spent.move(entries)
    assert (spent.count, spent.floor()) == (4, 0)
    assert list(spent) == [SpentRange(0, 2, 5), SpentRange(2, 3, 5), SpentRange(7, 8, 6)]
    assert spent.take(MOVE_MESSAGES_MAX) == [], "one move at a time"
    assert spent.end(entries, moved=True)
    assert (spent.count, spent.floor()) == (2, 2)


def test_a_move_that_fails_is_tried_again_first() -> None:
    spent = Spent()
    spent.add(4, 5, 1)
    spent.add(1, 2, 1)
    entries = spent.take(1)
    spent.move(entries)
    assert spent.end(entries, moved=False)
    assert spent.take(1) == [SpentRange(4, 5, 1)]


def test_a_move_of_what_was_forgotten_is_nothing() -> None:
    spent = Spent()
    spent.add(0, 2, 1)
    entries = spent.take(2)
    spent.move(entries)
    spent.clear()
    spent.add(9, 10, 1)
    assert not spent.end(entries, moved=False)
    assert (spent.count, list(spent)) == (1, [SpentRange(9, 10, 1)])


# --- in a channel --------------------------------------------------------------------------------
def give_up(world: World, most: int, count: int = 1) -> Reader:
    """A reader of a channel with a limit who has let every attempt at ``count`` messages pass."""
    channel = world.channel()
    channel.limit_attempts(most, "t.dead")
    world.fill(count)
    reader = Reader(world, channel, count)
    for attempt in range(1, most + 1):
        assert reader.take() == [(offset, attempt) for offset in range(count)]
        for offset in range(count):
            reader.requeue(offset)
    return reader


def test_after_the_last_attempt_a_message_is_spent(world: World) -> None:
    reader = give_up(world, 2, count=2)
    channel = reader.channel
    assert reader.take() == []
    state = channel.state
    assert (state.spent.count, state.depth, state.requeued.count) == (2, 2, 0)
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    base = world.topic.log.id_base
    assert parcel.origins == Origins("t", "c", [base, base + 1], [2, 2])
    assert [bytes(frame)[34:] for frame in parcel.frames] == [b"m0", b"m1"]
    assert channel.take_spent(world.now) is None
    channel.settle(parcel, world.now, moved=True)
    assert (channel.state.spent.count, channel.dead_letter_count, channel.state.depth) == (0, 2, 0)
    assert channel.state.floor() == 2


def test_time_outs_are_attempts_too(world: World) -> None:
    channel = world.channel()
    channel.limit_attempts(1, "t.dead")
    world.fill(1)
    assert Reader(world, channel, 1).offsets() == [0]
    world.wait(TIMEOUT)
    assert (channel.timeout_count, channel.state.spent.count) == (1, 1)
    assert channel.wake_at == world.now, "the shell is told at once"


def test_what_cannot_be_published_is_kept_and_asked_for_again(world: World) -> None:
    channel = give_up(world, 1).channel
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    world.broker.tick(world.now)
    channel.settle(parcel, world.now, moved=False)
    assert (channel.state.spent.count, channel.dead_letter_count) == (1, 0)
    world.clock.advance(SECOND)
    assert channel in world.broker.tick(world.now)
    assert channel.take_spent(world.now) is not None


def test_a_move_that_ends_after_the_channel_was_emptied(world: World) -> None:
    channel = give_up(world, 1).channel
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    channel.empty()
    channel.settle(parcel, world.now, moved=True)
    assert (channel.state.spent.count, channel.dead_letter_count) == (0, 0)


@pytest.mark.parametrize("restart", [World.restart, World.kill])
def test_spent_messages_survive_a_restart_as_such(world: World, restart: object) -> None:
    give_up(world, 2)
    world.topic.journal.save()
    assert callable(restart)
    restart(world)
    channel = world.topic.channels["c"]
    assert channel.state.requeued.count == 1, "this time the channel has no limit"
    channel.limit_attempts(2, "t.dead")
    assert (channel.state.requeued.count, channel.state.spent.count) == (0, 1)


def test_a_limit_that_is_lifted_lets_them_come_again(world: World) -> None:
    reader = give_up(world, 1)
    reader.channel.limit_attempts(0, "")
    assert reader.take() == [(0, 2)]


def test_a_dead_letter_is_not_moved_again(world: World) -> None:
    from penstock.nsq.protocol.dead_letters import DeadLetterFrames

    channel = give_up(world, 1).channel
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    topic = world.broker.topic("t.dead")
    topic.stage(
        DeadLetterFrames(parcel.frames, encode_origins(parcel.origins)), 0, lambda error: None
    )
    assert topic.commit()[1] is None
    dead = topic.channel("c")
    topic.distribute()
    dead.limit_attempts(1, "t")
    reader = Reader(world, dead, 1)
    for attempt in (1, 2, 3):
        assert reader.take() == [(0, attempt)]
        reader.requeue(0)
        assert dead.take_spent(world.now) is None
    assert dead.dead_letter_count == 0


def test_a_move_of_many_bytes_leaves_the_rest_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.channels.channel.MOVE_BYTES_MAX", 1)
    channel = give_up(world, 1, count=3).channel
    for offset in range(3):
        parcel = channel.take_spent(world.now)
        assert parcel is not None
        assert [bytes(frame)[34:] for frame in parcel.frames] == [b"m%d" % offset]
        channel.settle(parcel, world.now, moved=True)
    assert channel.take_spent(world.now) is None
    assert (channel.state.spent.count, channel.dead_letter_count) == (0, 3)


def test_spent_messages_that_cannot_be_read_are_tried_again_soon(world: World) -> None:
    give_up(world, 1, count=2)
    world.restart()
    channel = world.topic.channels["c"]
    channel.limit_attempts(1, "t.dead")
    world.broker.tick(world.now)
    world.disk.fail("read", within=".log")
    assert channel.take_spent(world.now) is None
    assert channel.state.spent.count == 2
    world.clock.advance(SECOND)
    assert channel in world.broker.tick(world.now)
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    assert len(parcel.frames) == 2


def test_a_damaged_message_is_lost_not_moved_for_ever(world: World) -> None:
    channel = give_up(world, 1).channel
    channel.state.spent.add(500, 501, 1)  # nothing is there
    first = channel.take_spent(world.now)
    assert first is not None
    assert len(first.frames) == 1
    channel.settle(first, world.now, moved=True)
    assert channel.take_spent(world.now) is None
    assert (channel.state.spent.count, channel.state.lost_count) == (0, 1)
