"""Messages on their way to handlers and back, without a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.consuming import Consumption, RetryLater, Unit
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub

QUEUE = MessageQueue("a", 0, "T")
CONFIG = Config(
    namesrv_addr=NAME_SERVER,
    client_ip="10.0.0.1",
    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
)


def made(
    *bodies: bytes, kind: dict[str, Any] | None = None, **options: Any
) -> tuple[MemoryHub, Brokers, Consumption]:
    hub = MemoryHub(replace(CONFIG, **options))
    brokers = Brokers(hub, "T", queues=1)
    brokers.put(QUEUE, *bodies)
    core = Consumption("G", hub, ConsumerKind(**(kind or {})))
    core.subscribe("T", Filter())
    hub.does(Job(core.begin()))
    hub.passes(1)
    return hub, brokers, core


def taken(core: Consumption, most: int = 1) -> Unit:
    unit = core.take(most)
    assert unit is not None
    return unit


def bodies(unit: Unit) -> list[bytes]:
    return [message.body for message in unit.messages]


def test_units_are_as_large_as_they_may_be() -> None:
    _, _, core = made(b"1", b"2", b"3")
    assert [bodies(taken(core, 2)), bodies(taken(core, 2))] == [[b"1", b"2"], [b"3"]]
    assert core.take(2) is None
    assert core.working == 2


def test_what_is_done_out_of_order_waits_for_what_is_before_it() -> None:
    _, _, core = made(b"1", b"2")
    first, second = taken(core), taken(core)
    core.finished(second)
    assert core.held[QUEUE].commit_offset == 0
    core.finished(first)
    assert core.held[QUEUE].commit_offset == 2


def test_a_failed_message_is_sent_back_and_counts_as_done_then() -> None:
    hub, brokers, core = made(b"1", b"2", max_reconsume_times=5)
    core.failed(taken(core), RetryLater(delay_level=4))
    core.failed(taken(core), ValueError("no"))
    hub.passes(0.1)
    assert core.held[QUEUE].commit_offset == 2
    sent = [(r.text("offset"), r.text("delayLevel"), r.text("maxReconsumeTimes"))
            for r in brokers.sent_back]  # fmt: skip
    assert sent == [("1000", "4", "5"), ("1001", "0", "5")]


def test_one_that_cannot_be_sent_back_is_handled_again_here() -> None:
    hub, _, core = made(b"1")
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _, r: r.answer(1, "no")
    hub.answers[RequestCode.SEND_MESSAGE_V2] = lambda _, r: r.answer(13, "no")
    core.failed(taken(core), RetryLater())
    hub.passes(1)
    assert core.take(1) is None
    assert core.held[QUEUE].commit_offset == 0
    hub.passes(5)
    assert taken(core).messages[0].reconsume_times == 1


def test_a_broadcast_message_that_fails_is_dropped(tmp_path: Any) -> None:
    hub, brokers, core = made(b"1", message_model="BROADCASTING", offset_store_path=str(tmp_path))
    core.failed(taken(core), ValueError("no"))
    hub.passes(1)
    assert not brokers.sent_back
    assert core.held[QUEUE].commit_offset == 1


def test_a_message_that_is_handled_for_too_long_is_sent_back() -> None:
    hub, brokers, core = made(b"1", kind={"has_retries": True}, consume_timeout=60.0)
    unit = taken(core)
    hub.passes(100)
    assert [request.text("delayLevel") for request in brokers.sent_back] == ["3"]
    assert core.held[QUEUE].commit_offset == 1
    core.finished(unit)  # too late: nothing changes
    hub.passes(100)
    assert len(brokers.sent_back) == 1


def test_a_queue_is_pulled_no_further_than_its_limits() -> None:
    for option in (
        "pull_threshold_for_queue",
        "pull_threshold_size_for_queue",
        "consume_concurrently_max_span",
    ):
        options: dict[str, Any] = {option: 4}
        _, _, core = made(*[b"x"] * 40, pull_batch_size=2, **options)
        assert 4 <= core.held[QUEUE].count <= 6


def test_what_was_pulled_of_a_lost_queue_is_not_handed_out() -> None:
    hub, brokers, core = made(b"1", b"2")
    unit = taken(core)
    brokers.members = [hub.client_id, "0"]  # the other one comes first and gets the only queue
    hub.passes(21)
    assert core.take(1) is None
    core.finished(unit)
    assert brokers.offsets[QUEUE] == 0


# --- in order -------------------------------------------------------------------------------------


def test_a_failed_message_of_a_lost_queue_is_left_to_who_has_it_now() -> None:
    """Its offset is not committed: a copy in the retry topic would be a second one."""
    hub, brokers, core = made(b"1", b"2", kind={"has_retries": True}, consume_timeout=4.0)
    sought = taken(core)
    core.seek(core.held[QUEUE], 0)
    core.failed(sought, ValueError("no"))
    hub.work()
    failing, hanging = taken(core), taken(core)
    brokers.members = []
    hub.does(Job(core.share_now()))
    assert QUEUE not in core.held
    core.failed(failing, ValueError("no"))
    hub.passes(10)
    assert hanging.is_expired
    assert brokers.sent_back == []
    assert brokers.offsets[QUEUE] == 0


@pytest.mark.parametrize("is_orderly", [False, True])
def test_what_a_handler_was_stopped_at_is_handed_out_again(is_orderly: bool) -> None:
    hub, brokers, core = made(b"1", b"2", kind={"is_orderly": is_orderly})
    first = taken(core, 2)
    core.held[QUEUE].done(first.messages[:1])
    assert core.take(2) is None
    core.give_back(first)
    second = taken(core, 2)
    assert (bodies(second), core.working) == ([b"2"], 1)
    brokers.members = []
    hub.does(Job(core.share_now()))
    core.give_back(second)
    assert core.take(1) is None, "the queue is another's"
    hub.passes(1)
    assert brokers.offsets[QUEUE] == 1


def test_in_order_one_unit_of_a_queue_is_handled_at_a_time() -> None:
    _, _, core = made(b"1", b"2", kind={"is_orderly": True})
    unit = taken(core)
    assert core.take(1) is None
    core.finished(unit)
    assert bodies(taken(core)) == [b"2"]


def test_in_order_a_failed_message_is_tried_again_before_those_behind_it() -> None:
    hub, brokers, core = made(b"1", b"2", kind={"is_orderly": True})
    core.failed(taken(core), ValueError("no"))
    assert core.take(1) is None
    hub.passes(1.1)
    again = taken(core)
    assert (bodies(again), again.messages[0].reconsume_times) == ([b"1"], 1)
    assert not brokers.sent_back


def test_in_order_a_spent_message_goes_aside() -> None:
    hub, _, core = made(b"1", b"2", kind={"is_orderly": True}, max_reconsume_times=1)
    core.failed(taken(core), RetryLater())
    hub.passes(1.1)
    core.failed(taken(core), RetryLater())
    hub.passes(1.1)
    assert bodies(taken(core)) == [b"2"]
    (copy,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    assert (copy.text("b"), copy.text("j"), copy.text("l")) == ("%RETRY%G", "1", "1")


def test_in_order_a_dead_letter_at_once() -> None:
    hub, brokers, core = made(b"1", b"2", kind={"is_orderly": True})
    core.failed(taken(core), RetryLater(delay_level=-1))
    hub.passes(1.1)
    assert bodies(taken(core)) == [b"2"]
    assert [request.text("delayLevel") for request in brokers.sent_back] == ["-1"]


def test_in_order_a_spent_message_that_no_broker_takes_is_tried_again() -> None:
    hub, _, core = made(b"1", kind={"is_orderly": True}, max_reconsume_times=0)
    hub.answers[RequestCode.SEND_MESSAGE_V2] = lambda _, r: r.answer(13, "no")
    core.failed(taken(core), RetryLater())
    hub.passes(2)
    assert bodies(taken(core)) == [b"1"]


def test_nothing_is_handed_out_after_the_end_has_begun() -> None:
    hub, brokers, core = made(b"1", b"2", b"3")
    unit = taken(core)
    core.stop()
    assert core.take(1) is None
    core.finished(unit)
    hub.does(Job(core.leave()))
    assert brokers.offsets[QUEUE] == 1


def test_in_order_a_handler_that_hangs_keeps_the_lock_of_its_queue() -> None:
    hub, brokers, core = made(b"1", kind={"is_orderly": True})
    taken(core)
    core.stop()
    hub.does(Job(core.leave()))
    assert brokers.locked == {QUEUE}
    assert brokers.offsets[QUEUE] == 0
