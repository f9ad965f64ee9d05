"""Connections, requests, timers and jobs without a network."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import SECOND
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, NoPermission, NotConnected, Stopped, TimedOut
from penstock.rocketmq.client.network.jobs import Job, Promise, all_of, kept, settled
from penstock.rocketmq.client.network.timers import Timer, Timers
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, signature
from tests.unit.rocketmq.client.memory_hub import FakeClock, MemoryHub, answering, refusing

ASK = RequestCode.GET_MAX_OFFSET


def test_one_connection_serves_all_requests_to_an_address() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = answering()
    first, second = Job(hub.ask("b:1", ASK)), Job(hub.ask("b:1", ASK))
    hub.work()
    assert first.result().is_response
    assert second.result().is_response
    assert list(hub.connections) == ["b:1"]


def test_a_refusal_is_the_exception_of_its_code() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = refusing(ResponseCode.NO_PERMISSION, "perm 4")
    with pytest.raises(NoPermission, match=r"b:1 \(topic T\): NO_PERMISSION 16: perm 4"):
        hub.does(hub.demand("b:1", ASK, subject="topic T"))


def test_a_silent_server_is_waited_for_so_long() -> None:
    hub = MemoryHub()
    job = Job(hub.ask("b:1", ASK, seconds=2.0))
    hub.passes(1.9)
    assert not job.is_done
    hub.passes(0.2)
    assert isinstance(job.error, TimedOut)


def test_a_connection_that_leads_nowhere_is_made_again() -> None:
    """The system would send the same bytes for a quarter of an hour, and tell nobody."""
    hub = MemoryHub()
    lost: list[str] = []
    hub.on_lost.append(lost.append)
    early, late = Job(hub.ask("b:1", ASK, seconds=5.0)), Job(hub.ask("b:1", ASK, seconds=60.0))
    hub.work()
    before = hub.connections["b:1"]
    hub.passes(5.1)
    assert isinstance(early.error, TimedOut)
    assert isinstance(late.error, NotConnected)
    assert lost == ["b:1"]
    hub.answers[ASK] = answering()
    assert hub.does(hub.ask("b:1", ASK)).is_response
    assert hub.connections["b:1"] is not before


def test_a_server_that_is_not_there_is_tried_again_with_the_next_request() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = answering()
    hub.down.add("b:1")
    lost: list[str] = []
    hub.on_lost.append(lost.append)
    with pytest.raises(NotConnected, match="refused"):
        hub.does(hub.ask("b:1", ASK))
    assert lost == ["b:1"]
    hub.down.clear()
    assert hub.does(hub.ask("b:1", ASK)).is_response


def test_requests_of_brokers_are_served_by_code() -> None:
    hub = MemoryHub()
    Job(hub.ask("b:1", ASK))
    hub.work()
    hub.serves[40] = lambda wire, request: request.answer(remark="yes")
    before = len(hub.log)
    hub.receive("b:1", Command(40, 1))
    hub.receive("b:1", Command(999, 2))
    answers = [answer for _, answer in hub.log[before:]]
    assert [answer.code for answer in answers] == [0, ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


def test_a_closed_hub_ends_everything() -> None:
    hub = MemoryHub()
    job = hub.spawn(hub.ask("b:1", ASK), "ask")
    sleeping = hub.spawn(_sleep(hub), "sleep")
    hub.close()
    hub.close()
    assert isinstance(job.error, Stopped)
    assert isinstance(sleeping.error, Stopped)
    assert hub.deadline is None
    with pytest.raises(Stopped):
        hub.does(hub.ask("b:1", ASK))


async def _sleep(hub: MemoryHub) -> None:
    await hub.sleep(1.0)


def test_a_failure_that_nobody_expects_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        MemoryHub().spawn(fails(), "the job")
    assert "the job failed" in caplog.text


def test_the_vip_address_is_two_ports_lower() -> None:
    assert MemoryHub(vip_channel_enabled=True).vip("b:10911") == "b:10909"
    assert MemoryHub().vip("b:10911") == "b:10911"


def test_the_environment_names_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert MemoryHub(Config()).name_servers.addresses == ["a:1", "b:2"]


# --- one connection -------------------------------------------------------------------------------


class Far:
    """The server's side."""

    def __init__(self, config: Config | None = None) -> None:
        self.clock = FakeClock()
        self.flushes = 0
        self.requests: list[Command] = []
        self.wire = Wire("b:1", config or Config(), self.clock, self._flush, self._asked)

    def _flush(self, _: Wire) -> None:
        self.flushes += 1

    def _asked(self, _: Wire, request: Command) -> None:
        self.requests.append(request)

    def take(self) -> list[Command]:
        reader = frames.FrameReader()
        reader.feed(self.wire.take_output())
        return reader.next_commands(100)


def test_requests_are_one_write_and_answers_find_them_in_any_order() -> None:
    far = Far()
    first = far.wire.ask(Command(11), 1.0)
    second = far.wire.ask(Command(11), 1.0)
    assert far.flushes == 1
    one, two = far.take()
    far.wire.opened()
    far.wire.receive_data(frames.encode(two.answer(remark="two")))
    assert not first.is_done
    far.wire.receive_data(frames.encode(one.answer(remark="one")))
    assert (first.result().remark, second.result().remark) == ("one", "two")
    assert (far.wire.state.requests, far.wire.state.answers) == (2, 2)


def test_a_request_that_is_late_fails_alone() -> None:
    far = Far()
    early, late = far.wire.ask(Command(11), 1.0), far.wire.ask(Command(11), 5.0)
    one, two = far.take()
    assert far.wire.deadline == far.clock.now + SECOND
    far.wire.opened()
    far.wire.expire(far.clock.now + SECOND)
    with pytest.raises(TimedOut, match=r"b:1: no answer within 1 s"):
        early.result()
    assert far.wire.deadline == far.clock.now + 5 * SECOND
    far.wire.receive_data(frames.encode(one.answer()) + frames.encode(two.answer()))
    assert late.is_done
    assert late.error is None


@pytest.mark.parametrize(
    ("heard_s", "seconds", "is_silent"), [(0.0, 5.0, True), (2.0, 5.0, False), (0.0, 2.0, False)]
)
def test_a_connection_is_silent_if_nothing_comes_for_so_long(
    heard_s: float, seconds: float, is_silent: bool
) -> None:
    far = Far()
    far.wire.opened()
    far.wire.ask(Command(11), 60.0)
    far.wire.ask(Command(11), seconds)
    one, _ = far.take()
    sent = far.clock.now
    if heard_s:
        far.clock.now = sent + int(heard_s * SECOND)
        far.wire.receive_data(frames.encode(one.answer()))
    assert not far.wire.is_silent(sent + int(seconds * SECOND) - 1)
    assert far.wire.is_silent(sent + int(seconds * SECOND)) is is_silent


def test_a_connection_is_not_judged_by_what_was_asked_before_it_was_there() -> None:
    far = Far()
    far.wire.ask(Command(11), 5.0)
    sent = far.clock.now
    assert not far.wire.is_silent(sent + 5 * SECOND)
    far.clock.now += 4 * SECOND
    far.wire.opened()
    assert not far.wire.is_silent(sent + 5 * SECOND)


def test_time_may_begin_when_a_request_is_sent() -> None:
    far = Far()
    far.wire.ask(Command(11), 9.0)
    far.take()
    far.clock.now += SECOND
    far.wire.ask(Command(11), 5.0)
    far.wire.begin_now()
    far.clock.now += 7 * SECOND
    assert far.wire.deadline == far.clock.now - 2 * SECOND
    far.wire.begin_now()
    assert far.wire.deadline == far.clock.now + SECOND, "that of the first one, which was sent"
    far.wire.expire(far.clock.now + SECOND)
    assert far.wire.deadline == far.clock.now + 5 * SECOND


def test_a_lost_connection_fails_what_waits() -> None:
    far = Far()
    promise = far.wire.ask(Command(11), 1.0)
    far.wire.lost(NotConnected("b:1", "gone"))
    assert isinstance(promise.error, NotConnected)
    assert far.wire.take_output() == b""


def test_a_one_way_request_waits_for_nothing() -> None:
    far = Far()
    far.wire.tell(Command(37))
    assert far.wire.nbytes_said > 0
    (request,) = far.take()
    assert far.wire.nbytes_said == 0
    assert request.is_one_way
    assert far.wire.deadline is None


def test_requests_of_the_server_are_handed_on() -> None:
    far = Far()
    far.wire.receive_data(frames.encode(Command(40, 1)))
    (request,) = far.requests
    far.wire.answer(request.answer())
    assert far.take()[0].is_response


def test_headers_may_be_binary_but_for_codes_that_do_not_fit() -> None:
    far = Far(Config(serialization="ROCKETMQ"))
    far.wire.ask(Command(11), 1.0)
    far.wire.ask(Command(200_050), 1.0)
    kinds = [request.serialization for request in far.take()]
    assert kinds == [Serialization.BINARY, Serialization.JSON]


def test_an_account_signs_its_requests() -> None:
    config = replace(Config(), access_key="me", secret_key="shh", security_token="t")
    far = Far(config)
    far.wire.ask(Command(11, 0, {"topic": "T"}), 1.0)
    (request,) = far.take()
    assert request.ext is not None
    assert (request.ext[ACCESS_KEY], request.ext["SecurityToken"]) == ("me", "t")
    assert request.ext[SIGNATURE] == signature(request, "shh").decode()


@pytest.mark.parametrize(
    ("said", "guess"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"), (b"\x15\x03\x01\x00\x02\x02F", "tls_enable"),
     (b"\xff\xff\xff\xff\xff\xff\xff\xff", "server of RocketMQ")],
)  # fmt: skip
def test_a_stranger_is_named(said: bytes, guess: str) -> None:
    with pytest.raises(BadAnswer, match=guess):
        Far().wire.receive_data(said)


# --- timers ---------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(["at", "cancel", "run"]), st.integers(0, 20)), max_size=30)
)
def test_timers_are_called_once_in_order_and_cancelled_ones_never(
    steps: list[tuple[str, int]],
) -> None:
    timers, called = Timers(), list[int]()
    made, waiting = list[Timer](), dict[int, int]()
    for what, value in steps:
        if what == "at":
            waiting[len(made)] = value
            made.append(timers.at(value, partial(called.append, len(made))))
        elif what == "cancel" and made:
            made[value % len(made)].cancel()
            waiting.pop(value % len(made), None)
        elif what == "run":
            due = sorted((when, number) for number, when in waiting.items() if when <= value)
            called.clear()
            timers.run(value)
            assert called == [number for _, number in due]
            waiting = {number: when for number, when in waiting.items() if when > value}
        assert timers.next == min(waiting.values(), default=None)
    timers.clear()
    assert timers.next is None


def test_a_timer_set_by_another_waits_for_the_next_run() -> None:
    timers, told = Timers(), []
    timers.at(1, lambda: timers.at(1, lambda: told.append("again")))
    timers.run(5)
    assert told == []
    timers.run(5)
    assert told == ["again"]


def test_calls_behind_one_that_raises_stay_due() -> None:
    timers, told = Timers(), []

    def interrupted() -> None:
        told.append("interrupted")
        raise KeyboardInterrupt

    timers.at(10, lambda: told.append("a"))
    timers.at(20, interrupted)
    cancelled = timers.at(30, lambda: told.append("b"))
    timers.at(30, lambda: told.append("c"))
    with pytest.raises(KeyboardInterrupt):
        timers.run(50)
    assert told == ["a", "interrupted"]
    assert timers.next == 30
    cancelled.cancel()
    timers.run(50)
    assert told == ["a", "interrupted", "c"]


def test_cancelled_timers_are_not_kept_until_they_would_be_due() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.at(10**9 + number, lambda: None).cancel()
    assert len(timers._heap) <= 1000


# --- coroutines without an event loop -------------------------------------------------------------


async def plus_one(promise: Promise[int]) -> int:
    return await promise + 1


def test_a_job_goes_on_when_its_promise_is_kept() -> None:
    promise = Promise[int]()
    job = Job(plus_one(promise))
    assert not job.is_done
    promise.keep(1)
    assert job.result() == 2
    assert Job(plus_one(kept(1))).result() == 2, "it waits for nothing"


def test_an_error_is_raised_where_it_is_awaited() -> None:
    promise = Promise[int]()
    job = Job(plus_one(promise))
    promise.fail(ValueError("no"))
    assert isinstance(job.error, ValueError)
    with pytest.raises(ValueError, match="no"):
        job.result()


def test_what_is_known_stays_so() -> None:
    promise = kept(1)
    promise.keep(2)
    promise.fail(ValueError())
    assert promise.result() == 1


def test_a_cancelled_job_ends_where_it_waits() -> None:
    ended = []

    async def work(promise: Promise[int]) -> None:
        try:
            await promise
        finally:
            ended.append(True)

    promise = Promise[int]()
    job = Job(work(promise))
    job.cancel(KeyError("gone"))
    assert ended == [True]
    assert isinstance(job.error, KeyError)
    promise.keep(1)  # nobody waits any more
    job.cancel(ValueError())
    assert isinstance(job.error, KeyError)


def test_waiting_for_all_does_not_mind_errors() -> None:
    first, second = Promise[int](), Promise[int]()
    job = Job(all_of([first, second]))
    second.fail(ValueError())
    assert not job.is_done
    first.keep(1)
    assert job.is_done
    assert settled(second).is_done


def test_a_callback_can_be_forgotten() -> None:
    told: list[Promise[int]] = []
    promise = Promise[int]()
    promise.then(told.append)
    promise.forget(told.append)
    promise.forget(told.append)
    promise.keep(1)
    assert told == []
