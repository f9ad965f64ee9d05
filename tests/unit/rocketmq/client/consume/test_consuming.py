"""Messages on their way to handlers and back, without a network."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.client_requests import ClientRequests
from penstock.rocketmq.client.consume.consuming import Consumption, RetryLater
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.handling_rates import HandlingRates
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.consume.send_back import SendBack
from penstock.rocketmq.client.errors import BrokerError
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import encode
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.client.brokers import Brokers, bodies, taken
from tests.unit.rocketmq.client.memory_hub import MemoryHub, refusing
from tools.harness.rocketmq.records import received, stored

QUEUE = MessageQueue("a", 0, "T")
FIRST = "CONSUME_FROM_FIRST_OFFSET"


def made(
    *messages: bytes, kind: dict[str, Any] | None = None, **options: Any
) -> tuple[MemoryHub, Brokers, Consumption]:
    hub = MemoryHub(consume_from_where=FIRST, **options)
    brokers = Brokers(hub, "T", queues=1)
    brokers.put(QUEUE, *messages)
    core = Consumption("G", hub, ConsumerKind(**(kind or {})))
    core.subscribe("T", Filter())
    hub.does(core.begin())
    hub.passes(1)
    return hub, brokers, core


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
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = refusing(1)
    hub.answers[RequestCode.SEND_MESSAGE_V2] = refusing(13)
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


@pytest.mark.parametrize(
    "limit",
    ["pull_threshold_for_queue", "pull_threshold_size_for_queue", "consume_concurrently_max_span"],
)
def test_a_queue_is_pulled_no_further_than_its_limits(limit: str) -> None:
    options: dict[str, Any] = {limit: 4}
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


def test_a_failed_message_of_a_lost_queue_is_left_to_who_has_it_now() -> None:
    """Its offset is not committed: a copy in the retry topic would be a second one."""
    hub, brokers, core = made(b"1", b"2", kind={"has_retries": True}, consume_timeout=4.0)
    sought = taken(core)
    core.seek(core.held[QUEUE], 0)
    core.failed(sought, ValueError("no"))
    hub.work()
    failing, hanging = taken(core), taken(core)
    brokers.members = []
    hub.does(core.share_now())
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
    hub.does(core.share_now())
    core.give_back(second)
    assert core.take(1) is None, "the queue is another's"
    hub.passes(1)
    assert brokers.offsets[QUEUE] == 1


# --- in order -------------------------------------------------------------------------------------


def test_in_order_a_failed_message_is_tried_again_before_those_behind_it() -> None:
    hub, brokers, core = made(b"1", b"2", kind={"is_orderly": True})
    core.failed(taken(core), ValueError("no"))
    assert core.take(1) is None
    hub.passes(1.1)
    again = taken(core)
    assert (bodies(again), again.messages[0].reconsume_times) == ([b"1"], 1)
    assert not brokers.sent_back


def test_in_order_a_dead_letter_at_once() -> None:
    hub, brokers, core = made(b"1", b"2", kind={"is_orderly": True})
    core.failed(taken(core), RetryLater(delay_level=-1))
    hub.passes(1.1)
    assert bodies(taken(core)) == [b"2"]
    assert [request.text("delayLevel") for request in brokers.sent_back] == ["-1"]


def test_in_order_a_spent_message_that_no_broker_takes_is_tried_again() -> None:
    hub, _, core = made(b"1", kind={"is_orderly": True}, max_reconsume_times=0)
    hub.answers[RequestCode.SEND_MESSAGE_V2] = refusing(13)
    core.failed(taken(core), RetryLater())
    hub.passes(2)
    assert bodies(taken(core)) == [b"1"]


def test_nothing_is_handed_out_after_the_end_has_begun() -> None:
    hub, brokers, core = made(b"1", b"2", b"3")
    unit = taken(core)
    core.stop()
    assert core.take(1) is None
    core.finished(unit)
    hub.does(core.leave())
    assert brokers.offsets[QUEUE] == 1


def test_in_order_a_handler_that_hangs_keeps_the_lock_of_its_queue() -> None:
    hub, brokers, core = made(b"1", kind={"is_orderly": True})
    taken(core)
    core.stop()
    hub.does(core.leave())
    assert brokers.locked == {QUEUE}
    assert brokers.offsets[QUEUE] == 0


# --- a queue that is held -------------------------------------------------------------------------


class Held(RuleBasedStateMachine):
    """Messages that are pulled, done in any order and sought away, against those not done yet."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.next = HeldQueue(QUEUE, 10), 10
        self.open: dict[int, Received] = {}
        self.known: list[Received] = []

    @rule(gaps=st.lists(st.integers(0, 3), max_size=4), behind=st.integers(0, 3))
    def pull(self, gaps: list[int], behind: int) -> None:
        pulled = []
        for gap in gaps:
            pulled.append(received(offset=self.next + gap, body=b"x" * (gap + 1)))
            self.open[self.next + gap] = pulled[-1]
            self.next += gap + 1
        self.next += behind
        self.known += pulled
        self.held.add(pulled, self.next)

    @rule(numbers=st.lists(st.integers(0, 20), max_size=3))
    def done(self, numbers: list[int]) -> None:
        """Some of them twice, and some that were pulled before the queue was sought."""
        chosen = [self.known[number % len(self.known)] for number in numbers if self.known]
        for message in chosen:
            if self.open.get(message.queue_offset) is message:
                del self.open[message.queue_offset]
        change = self.held.change()
        assert self.held.change() is change
        self.held.done(chosen)
        assert change.is_done

    @rule(offset=st.integers(0, 20))
    def seek(self, offset: int) -> None:
        self.open, self.next = {}, offset
        self.held.seek(offset)

    @invariant()
    def is_as_far_as_all_is_done(self) -> None:
        held, first = self.held, min(self.open, default=self.next)
        assert (held.commit_offset, held.span) == (first, self.next - first)
        assert (held.count, held.first(999)) == (len(self.open), list(self.open.values()))
        assert held.nbytes == sum(len(message.body) for message in self.open.values())
        for message in self.known:
            assert held.holds(message) is (self.open.get(message.queue_offset) is message)


TestHeld = Held.TestCase
TestHeld.settings = settings(stateful_step_count=20)


def test_waiting_for_rest() -> None:
    held = HeldQueue(QUEUE, 10)
    assert held.idle().is_done
    held.is_busy = True
    idle = held.idle()
    assert not idle.is_done
    held.rest()
    assert idle.is_done


def test_a_lock_is_relied_upon_for_half_a_minute() -> None:
    held = HeldQueue(QUEUE, 20)
    assert not held.is_locked(0)
    held.locked_ns = 0
    assert held.is_locked(29 * SECOND)
    assert not held.is_locked(30 * SECOND)
    assert held.state(0).is_locked
    assert held.state(0).next_offset == 20


# --- on the way to the retry topic ----------------------------------------------------------------


def sending_back(**options: int) -> tuple[MemoryHub, Brokers, SendBack]:
    hub = MemoryHub(**options)
    return hub, Brokers(hub, "T"), SendBack(hub, "G", Publisher("CLIENT_INNER_PRODUCER", hub))


def test_the_broker_that_has_it_is_asked() -> None:
    hub, brokers, back = sending_back()
    hub.does(back.send(received(offset=5, UNIQ_KEY="ID"), 0))
    (request,) = brokers.sent_back
    assert request.ext == {
        "offset": "1005", "group": "G", "delayLevel": "0", "originMsgId": "ID", "originTopic": "T",
        "unitMode": "false", "maxReconsumeTimes": "16",
    }  # fmt: skip


def test_a_copy_is_sent_when_it_cannot() -> None:
    hub, _, back = sending_back(max_reconsume_times=7)
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = refusing(1)
    message = received(UNIQ_KEY="ID", TRAN_MSG="true", who="me")
    message.reconsume_times = 2
    hub.does(back.send(message, 0))
    (copy,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    marks = properties.parse(copy.text("i"))
    assert (copy.text("b"), copy.text("j"), copy.text("l")) == ("%RETRY%G", "3", "8")
    assert marks == {
        "UNIQ_KEY": "ID", "who": "me", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "ID", "DELAY": "5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tried", "level", "is_dead"), [(0, 0, False), (15, 0, False), (16, 0, True), (0, -1, True)]
)
def test_copies_are_dead_letters_when_the_broker_itself_would_make_them(
    tried: int, level: int, is_dead: bool
) -> None:
    hub, _, back = sending_back()
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = refusing(1)
    message = received(UNIQ_KEY="ID")
    message.reconsume_times = tried
    hub.does(back.send(message, level))
    (copy,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    assert (int(copy.text("j")) >= int(copy.text("l"))) is is_dead
    assert copy.text("j") == str(tried + 1), "or it would come again for ever"


def test_a_copy_that_is_refused_is_an_error() -> None:
    hub, _, back = sending_back()
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = refusing(1)
    hub.answers[RequestCode.SEND_MESSAGE_V2] = refusing(13)
    with pytest.raises(BrokerError):
        hub.does(back.send(received(), 0))


# --- rates, as tools read them --------------------------------------------------------------------

NOTHING = {"pullRT": 0.0, "pullTPS": 0.0, "consumeRT": 0.0, "consumeOKTPS": 0.0,
           "consumeFailedTPS": 0.0, "consumeFailedMsgs": 0}  # fmt: skip


def pass_minutes(rates: HandlingRates, clock: FakeClock, minutes: int) -> None:
    for _ in range(6 * minutes):
        clock.advance(10 * SECOND)
        rates.sample()


def test_rates_are_those_since_the_oldest_sample() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    assert rates.status("T") == NOTHING
    rates.pulled("T", 30 * MILLISECOND, 32)
    rates.pulled("T", 10 * MILLISECOND, 8)
    rates.handled("T", 6 * MILLISECOND, 3, succeeded=True)
    rates.handled("T", 2 * MILLISECOND, 1, succeeded=False)
    clock.advance(4 * SECOND)
    assert rates.status("T") == {
        "pullRT": 20.0, "pullTPS": 10.0, "consumeRT": 4.0, "consumeOKTPS": 0.75,
        "consumeFailedTPS": 0.25, "consumeFailedMsgs": 1,
    }  # fmt: skip
    assert rates.status("Other") == NOTHING


def test_a_minute_is_forgotten_sooner_than_an_hour() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    rates.handled("T", 6 * MILLISECOND, 2, succeeded=False)
    pass_minutes(rates, clock, 2)
    assert rates.status("T") == {**NOTHING, "consumeRT": 6.0, "consumeFailedMsgs": 2}
    pass_minutes(rates, clock, 80)
    assert rates.status("T") == NOTHING


def test_the_first_second_is_a_whole_one() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    clock.advance(MILLISECOND)
    rates.handled("T", 0, 5, succeeded=True)
    assert rates.status("T")["consumeOKTPS"] == 5.0


# --- requests of administrators -------------------------------------------------------------------


def asked() -> tuple[MemoryHub, Brokers, Consumption, ClientRequests]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.offsets[QUEUE] = 0
    brokers.put(QUEUE, b"1", b"2", b"3")
    core = Consumption("G", hub, ConsumerKind())
    requests = ClientRequests(core)
    core.subscribe("T", Filter())
    hub.does(core.begin())
    hub.passes(1)
    return hub, brokers, core, requests


def ask(hub: MemoryHub, code: int, body: bytes = b"", **fields: str) -> Any:
    before = len(hub.log)
    hub.receive("a:10911", Command(code, 1, fields, body))
    (answer,) = [a for _, a in hub.log[before:] if a.is_response]
    assert answer.code == 0
    return fastjson.loads(answer.body)


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"offsetTable":1}', b'{"offsetTable":[{"topic":"T"}]}',
     b'{"offsetTable":{"x":2}}', b'{"offsetTable":[1]}',
     b'{"offsetTable":[{"brokerName":"a","queueId":0,"topic":"T","offset":"x"}]}'],
)  # fmt: skip
def test_a_reset_that_makes_no_sense_changes_nothing(body: bytes) -> None:
    hub, _, core, _ = asked()
    hub.receive("a:10911", Command(220, 1, {}, body, flag=ONE_WAY))
    assert "a:10911" in hub.connections
    assert core.held[QUEUE].next_offset == 3


def test_offsets_are_reset_and_committed() -> None:
    hub, brokers, core, _ = asked()
    body = fastjson.dumps({"offsetTable": {QUEUE: 2}})
    hub.receive("a:10911", Command(220, 1, {"topic": "T", "group": "G"}, body, flag=ONE_WAY))
    hub.passes(0.1)
    assert bodies(taken(core, 9)) == [b"3"]
    assert brokers.offsets[QUEUE] == 2
    listed = [{"brokerName": "a", "queueId": 0, "topic": "T", "offset": 1}]
    body = fastjson.dumps({"offsetTable": listed})  # for clients in C++
    hub.receive("a:10911", Command(220, 2, {}, body, flag=ONE_WAY))
    hub.passes(0.1)
    assert core.held[QUEUE].commit_offset == 1


def test_it_says_where_it_is() -> None:
    hub, _, _, _ = asked()
    found = ask(hub, 221, topic="T", group="G")
    offsets = {dict(key)["queueId"]: at for key, at in found["messageQueueTable"].items()}
    assert offsets == {0: 0, 1: 0}


def test_it_says_what_it_does() -> None:
    hub, _, _, _ = asked()
    found = ask(hub, 307, consumerGroup="G", clientId=hub.client_id)
    assert found["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    (held,) = [v for k, v in found["mqTable"].items() if dict(k)["queueId"] == 0]
    cached = [held[f"cachedMsg{name}"] for name in ("Count", "MinOffset", "MaxOffset")]
    assert cached == [3, 0, 2]
    assert found["subscriptionSet"][0]["topic"] == "T"


def test_it_says_how_fast_it_is() -> None:
    hub, _, core, _ = asked()
    unit = taken(core, 2)
    hub.passes(3)
    core.finished(unit)
    core.failed(taken(core), RetryLater())
    found = ask(hub, 307, consumerGroup="G", clientId=hub.client_id)["statusTable"]
    assert found["T"] == {
        "consumeFailedMsgs": 1, "consumeFailedTPS": 0.25, "consumeOKTPS": 0.5, "consumeRT": 1500.0,
        "pullRT": 0.0, "pullTPS": 0.75,
    }  # fmt: skip


def test_it_handles_one_message_at_once() -> None:
    hub, _, _, requests = asked()
    record = encode(stored(body=b"now"))
    assert ask(hub, 309, record, brokerName="a")["consumeResult"] == "CR_THROW_EXCEPTION"
    seen: list[bytes] = []
    failures = {"later": RetryLater(), "broken": ValueError("no")}

    def handle(messages: list[Received]) -> None:
        seen.extend(message.body for message in messages)
        if messages[0].broker in failures:
            raise failures[messages[0].broker]

    requests.handler = handle
    for broker, result, remark in (
        ("a", "CR_SUCCESS", None),
        ("later", "CR_LATER", None),
        ("broken", "CR_THROW_EXCEPTION", "ValueError('no')"),
    ):
        found = ask(hub, 309, record, brokerName=broker)
        assert (found["consumeResult"], found.get("remark")) == (result, remark)
    assert seen == [b"now"] * 3
