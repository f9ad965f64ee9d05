"""A queue that a consumer has."""

from __future__ import annotations

from penstock.core.units import SECOND
from penstock.rocketmq.client.consume.held import HeldQueue
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tools.harness.rocketmq.records import received

QUEUE = MessageQueue("a", 0, "T")


def filled() -> HeldQueue:
    held = HeldQueue(QUEUE, 10)
    held.add([received(offset=offset, body=b"xx") for offset in (10, 11, 14)], 20)
    return held


def test_an_offset_is_committed_when_all_below_it_is_done() -> None:
    held = filled()
    first, second, third = held.first(5)
    assert (held.commit_offset, held.count, held.nbytes, held.span) == (10, 3, 6, 10)
    held.done([second])
    assert held.commit_offset == 10
    held.done([first])
    assert held.commit_offset == 14
    held.done([third])
    assert (held.commit_offset, held.nbytes, held.span) == (20, 0, 0)
    held.done([third])
    assert held.nbytes == 0


def test_seeking_forgets_what_was_pulled() -> None:
    held = filled()
    (message,) = held.first(1)
    assert held.holds(message)
    held.seek(3)
    assert (held.commit_offset, held.count, held.nbytes) == (3, 0, 0)
    assert not held.holds(message)
    held.done([message])  # of before
    assert held.nbytes == 0
    held.add([received(offset=10, body=b"xx")], 11)  # the same one, pulled again
    held.done([message])
    assert (held.commit_offset, held.count, held.nbytes) == (10, 1, 2)


def test_waiting_for_room_and_for_rest() -> None:
    held = filled()
    change = held.change()
    assert held.change() is change
    held.done(held.first(1))
    assert change.is_done
    assert held.idle().is_done
    held.is_busy = True
    idle = held.idle()
    assert not idle.is_done
    held.rest()
    assert idle.is_done


def test_a_lock_is_relied_upon_for_half_a_minute() -> None:
    held = filled()
    assert not held.is_locked(0)
    held.locked_ns = 0
    assert held.is_locked(29 * SECOND)
    assert not held.is_locked(30 * SECOND)
    assert held.state(0).is_locked
    assert held.state(0).next_offset == 20
