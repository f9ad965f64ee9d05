"""Publishes gathered, split and routed, and the choice among nodes, without a connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client import aio, blocking
from penstock.nsq.client.errors import BadMessage, BadTopic, NotConnected, PubFailed, Unauthorized
from penstock.nsq.client.hosts import (
    BUCKET,
    BUCKETS,
    EPSILON,
    EPSILON_MIN,
    MODES,
    EpsilonGreedy,
    Hosts,
    ResponseTimes,
    hosts_of,
)
from penstock.nsq.client.publishing import (
    GATHERED_BYTES_MAX,
    WAITING_BYTES_MAX,
    PendingPublishes,
    Request,
    Router,
    Topics,
    checked_body,
    parts_of,
)
from penstock.nsq.protocol import encode
from penstock.testing.clock import FakeClock


def request(*bodies: bytes, whole: bool = False) -> Request:
    promises = [Future[None]() for _ in (bodies[:1] if whole else bodies)]
    return Request("t", list(bodies), list(promises), sum(map(len, bodies)))


class Case:
    """A router over hosts a, b, … and what it said of requests that ended."""

    def __init__(self, count: int = 2, resend: bool = True) -> None:
        self.settled: list[Request] = []
        hosts = hosts_of("hostpool", list("abcd"[:count]), FakeClock(), SystemChance())
        self.router = Router(hosts, resend, self.settled.append)

    def sent(self, *bodies: bytes, whole: bool = False) -> Request:
        made = request(*bodies, whole=whole)
        self.router.route([made])
        return made


def error_of(made: Request, index: int = 0) -> BaseException | None:
    future = made.promises[index]
    assert isinstance(future, Future)
    return future.exception(0)


def test_the_command() -> None:
    assert request(b"1").command() == encode.publish("t", b"1")
    assert request(b"1", b"2").command() == encode.multi_publish("t", [b"1", b"2"])
    deferred = Request("t", [b"1"], [Future()], 1, 290)
    assert deferred.command() == encode.deferred_publish("t", 290, b"1")


def test_singles_of_a_topic_are_gathered_and_keep_their_order() -> None:
    pile = PendingPublishes()
    for topic, body in (("t", b"1"), ("u", b"2"), ("t", b"3")):
        pile.add(topic, body, Future())
    assert pile.may_grow
    pile.put(request(b"4", b"5", whole=True))
    assert not pile.may_grow
    pile.add("t", b"6", Future())
    assert [(r.topic, r.bodies) for r in pile.take()] == [
        ("t", [b"1", b"3"]),
        ("u", [b"2"]),
        ("t", [b"4", b"5"]),
        ("t", [b"6"]),
    ]
    assert not pile
    assert pile.may_grow


def test_gathering_is_bounded() -> None:
    pile = PendingPublishes()
    for _ in range(3):
        pile.add("t", b"x" * (GATHERED_BYTES_MAX // 2), Future())
    assert [len(r.bodies) for r in pile.take()] == [2, 1]
    pile.add("t", b"x" * WAITING_BYTES_MAX, Future())
    assert not pile.may_grow


def test_success() -> None:
    case = Case()
    made = case.sent(b"1", b"2")
    cancelled = made.promises[0]
    assert isinstance(cancelled, Future)
    cancelled.cancel()
    case.router.succeeded(made)
    assert error_of(made, 1) is None
    assert case.settled == [made]


def test_a_loss_goes_round_the_nodes_and_ends() -> None:
    case = Case(3)
    made = case.sent(b"1")
    seen = []
    error = NotConnected("a", "away")
    while case.router.lost([made], error, was_sent=False):
        seen.append(case.router.route([made]))
    assert seen[:2] == ["b", "c"]
    assert len(seen) == 3
    assert error_of(made) is error
    assert case.settled == [made]


def test_what_may_have_been_stored_is_sent_again_only_if_wanted() -> None:
    lost = NotConnected("a", "gone")
    careful, keen = Case(resend=False), Case()
    made = careful.sent(b"1")
    assert careful.router.lost([made], lost, was_sent=False) == [made]
    assert careful.router.lost([made], lost, was_sent=True) == []
    assert error_of(made) is lost
    made = keen.sent(b"1")
    assert keen.router.lost([made], lost, was_sent=True) == [made]


def test_refusals() -> None:
    case = Case()
    gathered = case.sent(b"1", b"2")
    singles = case.router.refused(gathered, BadMessage("E_BAD_MESSAGE too big"))
    assert [(r.bodies, r.promises) for r in singles] == [
        ([b"1"], gathered.promises[:1]),
        ([b"2"], gathered.promises[1:]),
    ]
    assert case.settled == []
    whole = case.sent(b"1", b"2", whole=True)
    assert case.router.refused(whole, BadMessage("E_BAD_MESSAGE too big")) == []
    assert isinstance(error_of(whole), BadMessage)
    forbidden = case.sent(b"1", b"2")
    assert case.router.refused(forbidden, Unauthorized("E_UNAUTHORIZED")) == []
    assert isinstance(error_of(forbidden, 1), Unauthorized)
    assert case.settled == [whole, forbidden]


def test_a_node_that_cannot_store_leaves_it_to_another() -> None:
    case = Case()
    made = case.sent(b"1")
    exiting = PubFailed("E_PUB_FAILED exiting")
    assert case.router.refused(made, exiting) == [made]
    assert case.router.route([made]) == "b"
    assert case.router.refused(made, exiting) == []
    assert error_of(made) is exiting


def test_what_was_sent_behind_a_refusal_is_sent_again_unless_it_may_be_stored() -> None:
    unstored, refused = PubFailed("E_PUB_FAILED topic is full"), BadMessage("E_BAD_MESSAGE")
    careful, keen = Case(resend=False), Case()
    made = keen.sent(b"1")
    assert keen.router.behind([made], unstored) == [made]
    made = careful.sent(b"1")
    assert careful.router.behind([made], refused) == [made]
    assert careful.router.behind([made], unstored) == []
    error = error_of(made)
    assert isinstance(error, NotConnected)
    assert str(error) == "a: the node ended the connection: E_PUB_FAILED topic is full"
    assert careful.settled == [made]


def test_topics_are_checked() -> None:
    topics = Topics()
    topics.check("t", "PUB")
    for n in range(2000):
        topics.check(f"t{n}", "PUB")
    assert len(topics._known) <= 1000
    with pytest.raises(BadTopic, match="MPUB"):
        topics.check("a b", "MPUB")


def test_bodies_are_checked() -> None:
    assert checked_body(memoryview(b"x"), "PUB") == b"x"  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match="DPUB invalid message body size 0"):
        checked_body(b"", "DPUB")
    for wrong, kind in (("text", "str"), (None, "NoneType"), ("", "str"), (7, "int")):
        with pytest.raises(TypeError, match=f"a message body is bytes, not {kind}"):
            checked_body(wrong, "PUB")  # type: ignore[arg-type]


def test_parts() -> None:
    bodies = [b"x" * 30] * 5
    assert [len(part) for part in parts_of(bodies, 100)] == [2, 2, 1]
    for part in parts_of(bodies, 100):
        assert len(encode.multi_body(part)) <= 100
    assert [len(part) for part in parts_of([b"x" * 500, b"y"], 100)] == [1, 1]
    assert parts_of([], 100) == []


@pytest.mark.parametrize("kind", [aio.Producer, blocking.Producer])
@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_that_lets_nothing_through_is_refused(kind: Any, bound: int) -> None:
    with pytest.raises(ConfigError, match=f"max_pending must be 1 at least, not {bound}"):
        kind("127.0.0.1:4150", max_pending=bound)
    if kind is aio.Producer:
        with pytest.raises(ConfigError, match="max_pending_bytes must be 1 at least"):
            kind("127.0.0.1:4150", max_pending_bytes=bound)


# --- the choice among nodes, with a clock and dice of our own


def hosts_in(mode: str, count: int = 3, clock: FakeClock | None = None, first: int = 0) -> Hosts:
    addresses = [f"{letter}:1" for letter in "abcdef"[:count]]
    return hosts_of(mode, addresses, clock or FakeClock(), SystemChance(1), first)


def letters_of(hosts: Hosts, count: int) -> str:
    return "".join(hosts.take().address[0] for _ in range(count))


def fail(hosts: Hosts, letters: Sequence[str]) -> None:
    """Let the hosts of these letters fail, each in a turn of its own."""
    for letter in letters:
        others = {host.address for host in hosts.hosts if host.address[0] != letter}
        hosts.take(others).failed()


def test_in_turn() -> None:
    assert letters_of(hosts_in("round-robin"), 7) == "abcabca"
    assert letters_of(hosts_in("round-robin", first=1), 4) == "bcab"
    assert letters_of(hosts_in("hostpool"), 4) == "abca"


def test_round_robin_goes_on_to_hosts_that_failed() -> None:
    hosts = hosts_in("round-robin")
    fail(hosts, "a")
    assert hosts.hosts[0].is_dead
    assert letters_of(hosts, 3) == "bca"


@pytest.mark.parametrize("mode", MODES)
def test_what_was_tried_is_left_out_while_there_are_others(mode: str) -> None:
    hosts = hosts_in(mode)
    assert {hosts.take({"a:1", "b:1"}).address for _ in range(10)} == {"c:1"}
    assert hosts.take({"a:1", "b:1", "c:1"}).address in {"a:1", "b:1", "c:1"}


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_host_that_failed_rests_longer_each_time(mode: str) -> None:
    clock = FakeClock()
    hosts = hosts_in(mode, 2, clock)
    fail(hosts, "a")
    for delay_s in (30, 60, 120, 240, 480, 900, 900):
        clock.advance(delay_s * SECOND - 1)
        assert letters_of(hosts, 5) == "bbbbb"
        clock.advance(1)
        fail(hosts, "a")
    clock.advance(900 * SECOND)
    hosts.take({"b:1"}).succeeded()
    assert not hosts.hosts[0].is_dead
    fail(hosts, "a")  # and begins anew
    clock.advance(30 * SECOND)
    assert hosts.hosts[0].may_be_tried(clock.monotonic_ns())


@pytest.mark.parametrize("mode", MODES[1:])
def test_when_all_are_dead_all_live(mode: str) -> None:
    hosts = hosts_in(mode)
    fail(hosts, "abc")
    assert all(host.is_dead for host in hosts.hosts)
    assert letters_of(hosts, 1) == "a"
    assert not any(host.is_dead for host in hosts.hosts)


def test_the_tried_are_left_out_among_the_dead_too() -> None:
    hosts = hosts_in("hostpool")
    fail(hosts, "abc")
    assert hosts.take({"a:1"}).address == "b:1"


def test_the_quicker_host_gets_more() -> None:
    clock = FakeClock()
    hosts = hosts_in("epsilon-greedy", 2, clock)
    assert isinstance(hosts, EpsilonGreedy)
    turns: Counter[str] = Counter()
    for _ in range(2000):
        turn = hosts.take()
        turns[turn.address] += 1
        clock.advance((3 if turn.address == "a:1" else 1) * MILLISECOND)
        turn.succeeded()
    assert hosts.epsilon == EPSILON_MIN < EPSILON
    assert 2.5 < turns["b:1"] / turns["a:1"] < 3.5


def test_a_host_that_slows_down_gets_less() -> None:
    clock = FakeClock()
    hosts = hosts_in("epsilon-greedy", 2, clock)
    slow_ms = {"a:1": 1, "b:1": 1}
    turns: Counter[str] = Counter()
    for round_ in range(2 * BUCKETS):
        if round_ == BUCKETS:
            slow_ms["a:1"] = 20
            turns.clear()
        for _ in range(10):
            turn = hosts.take()
            turns[turn.address] += 1
            clock.advance(slow_ms[turn.address] * MILLISECOND)
            turn.succeeded()
        clock.advance(BUCKET)
    assert turns["b:1"] > 3 * turns["a:1"]


def test_response_times_are_weighted_by_age() -> None:
    times = ResponseTimes()
    assert times.average() == 0
    times.add(10)
    times.add(30)
    assert times.average() == 20  # the newest bucket has the weight 1
    times.turn(1)
    assert times.average() == pytest.approx(20 * (BUCKETS - 1) / BUCKETS + 20)
    times.add(100)
    assert times.average() == pytest.approx(20 * (BUCKETS - 1) / BUCKETS + 100)
    times.turn(1_000_000)
    assert times.average() == 0


def test_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="unknown mode 'random'; there are round-robin"):
        hosts_in("random")
    with pytest.raises(ConfigError, match="no address is given"):
        hosts_in("hostpool", 0)


def test_an_address_given_twice_gets_twice_the_turns() -> None:
    hosts = hosts_of("round-robin", ["a:1", "a:1", "b:1"], FakeClock(), SystemChance())
    assert letters_of(hosts, 6) == "aabaab"
