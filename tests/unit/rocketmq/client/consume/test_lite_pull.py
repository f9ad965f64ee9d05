"""The core of lite pull consumers."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.lite_pull import LitePull
from penstock.rocketmq.client.errors import NotAssigned
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import MemoryHub

QUEUES = [MessageQueue("a", number, "T") for number in range(2)]


def made(*, auto_commit: bool = True) -> tuple[MemoryHub, Brokers, LitePull]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.offsets = dict.fromkeys(QUEUES, 0)
    brokers.put(QUEUES[0], b"1", b"2", b"3")
    core = LitePull("G", hub, auto_commit=auto_commit)
    hub.does(Job(core.assign(QUEUES)))
    hub.does(Job(core.begin()))
    hub.passes(1)
    return hub, brokers, core


def test_what_was_polled_is_done_with_the_next_poll() -> None:
    _, _, core = made()
    held = core.held[QUEUES[0]]
    assert [each.body for each in core.poll(2)] == [b"1", b"2"]
    assert held.commit_offset == 0
    assert [each.body for each in core.poll(2)] == [b"3"]
    assert held.commit_offset == 2
    assert core.poll(2) == []
    assert held.commit_offset == 3


def test_without_auto_commit_the_program_says_what_is_done() -> None:
    hub, brokers, core = made(auto_commit=False)
    core.poll(2)
    core.poll(2)
    hub.passes(6)
    assert brokers.offsets[QUEUES[0]] == 0
    hub.does(Job(core.commit_polled()))
    assert brokers.offsets[QUEUES[0]] == 3


def test_a_program_may_take_its_time_with_what_it_has_polled() -> None:
    hub, brokers, core = made(auto_commit=False)
    core.poll(3)
    hub.passes(2 * hub.config.consume_timeout)
    assert (brokers.sent_back, brokers.offsets[QUEUES[0]]) == ([], 0)
    hub.does(Job(core.commit_polled()))
    assert brokers.offsets[QUEUES[0]] == 3


def test_seeking_hands_out_from_there() -> None:
    hub, _, core = made(auto_commit=False)
    core.poll(3)
    core.seek_to(QUEUES[0], 1)
    assert core.working == 0
    hub.passes(0.1)
    assert [each.body for each in core.poll(9)] == [b"2", b"3"]
    with pytest.raises(NotAssigned):
        core.seek_to(MessageQueue("z", 0, "T"), 1)


def test_queues_chosen_by_hand_are_changed_at_once() -> None:
    hub, _, core = made()
    hub.does(Job(core.assign(QUEUES[:1])))
    assert list(core.held) == QUEUES[:1]
    assert hub.does(Job(core.queues_of("T"))) == QUEUES


def test_a_single_pull() -> None:
    hub, _, core = made()
    found = hub.does(Job(core.pull(QUEUES[0], 2, Filter(), 8, 0.0)))
    assert [each.body for each in found.messages] == [b"3"]


def test_a_loop_is_given_a_unit_and_counts_what_it_has_had() -> None:
    hub, brokers, core = made()
    held = core.held[QUEUES[0]]
    assert core.begin_loop(32)
    loop = core.each()
    assert [next(loop).body, next(loop).body] == [b"1", b"2"]
    assert held.commit_offset == 0
    hub.passes(6)  # of the loop's own commits
    assert brokers.offsets[QUEUES[0]] == 1, "the second one is being handled"
    assert next(loop).body == b"3"
    assert next(loop, None) is None
    assert not core.begin_loop(32)
    assert held.commit_offset == 3


@pytest.mark.parametrize("auto_commit", [True, False])
def test_what_a_loop_was_not_given_is_for_others(auto_commit: bool) -> None:
    hub, brokers, core = made(auto_commit=auto_commit)
    assert core.begin_loop(32)
    loop = core.each()
    assert next(loop).body == b"1"
    assert [each.body for each in core.poll(1)] == [b"2"]
    assert next(loop, None) is None, "the poll has ended it"
    assert core.begin_loop(32)
    assert next(core.each()).body == b"3"
    hub.does(Job(core.commit_polled()))
    assert brokers.offsets[QUEUES[0]] == 3


def test_a_commit_in_a_loop_is_of_what_it_was_given() -> None:
    hub, brokers, core = made(auto_commit=False)
    for number in range(1, 4):
        assert core.begin_loop(32)
        assert next(core.each()).queue_offset == number - 1
        hub.passes(6)
        assert brokers.offsets[QUEUES[0]] == number - 1
        hub.does(Job(core.commit_polled()))
        assert brokers.offsets[QUEUES[0]] == number


@pytest.mark.parametrize(
    ("auto_commit", "given_up", "done"),
    [(True, True, 1), (True, False, 2), (False, True, 0), (False, False, 0)],
)
def test_the_end_of_a_loop(auto_commit: bool, given_up: bool, done: int) -> None:
    """With an exception the last message is not done, else it is."""
    hub, brokers, core = made(auto_commit=auto_commit)
    assert core.begin_loop(32)
    loop = core.each()
    next(loop), next(loop)
    if given_up:
        core.give_up_polled()
    core.stop()
    hub.does(Job(core.leave()))
    assert brokers.offsets[QUEUES[0]] == done
    assert core.working == (0 if given_up or auto_commit else 1)


def test_seeking_in_a_loop() -> None:
    hub, _, core = made()
    assert core.begin_loop(32)
    loop = core.each()
    next(loop), next(loop)
    core.seek_to(QUEUES[0], 0)
    assert next(loop, None) is None
    hub.passes(0.1)
    assert core.begin_loop(32)
    assert [each.body for each in core.each()] == [b"1", b"2", b"3"]


def test_a_queue_that_a_loop_is_at_is_taken_away() -> None:
    hub, brokers, core = made()
    assert core.begin_loop(32)
    loop = core.each()
    next(loop), next(loop)
    hub.does(Job(core.assign(QUEUES[1:])))
    assert next(loop, None) is None
    assert brokers.offsets[QUEUES[0]] == 1
    assert not core.begin_loop(32)


def test_leaving_commits_what_was_polled() -> None:
    hub, brokers, core = made()
    core.poll(2)
    core.stop()
    hub.does(Job(core.leave()))
    assert brokers.offsets[QUEUES[0]] == 2


def test_what_was_polled_may_be_left_to_others() -> None:
    hub, brokers, core = made()
    core.poll(2)
    core.poll(1)
    core.give_up_polled()
    assert core.working == 0
    core.stop()
    hub.does(Job(core.leave()))
    assert brokers.offsets[QUEUES[0]] == 2
