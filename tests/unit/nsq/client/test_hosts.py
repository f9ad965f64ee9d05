"""The choice among hosts, with a clock and dice of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND, SECOND
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
from penstock.testing.clock import FakeClock


def made(mode: str, count: int = 3, clock: FakeClock | None = None, first: int = 0) -> Hosts:
    addresses = [f"{letter}:1" for letter in "abcdef"[:count]]
    return hosts_of(mode, addresses, clock or FakeClock(), SystemChance(1), first)


def used(hosts: Hosts, count: int) -> str:
    return "".join(hosts.take().address[0] for _ in range(count))


def fail(hosts: Hosts, letters: Sequence[str]) -> None:
    """Let the hosts of these letters fail, each in a turn of its own."""
    for letter in letters:
        others = {host.address for host in hosts.hosts if host.address[0] != letter}
        hosts.take(others).failed()


def test_in_turn() -> None:
    assert used(made("round-robin"), 7) == "abcabca"
    assert used(made("round-robin", first=1), 4) == "bcab"
    assert used(made("hostpool"), 4) == "abca"


def test_round_robin_goes_on_to_hosts_that_failed() -> None:
    hosts = made("round-robin")
    fail(hosts, "a")
    assert hosts.hosts[0].is_dead
    assert used(hosts, 3) == "bca"


@pytest.mark.parametrize("mode", MODES)
def test_what_was_tried_is_left_out_while_there_are_others(mode: str) -> None:
    hosts = made(mode)
    assert {hosts.take({"a:1", "b:1"}).address for _ in range(10)} == {"c:1"}
    assert hosts.take({"a:1", "b:1", "c:1"}).address in {"a:1", "b:1", "c:1"}


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_host_that_failed_rests_longer_each_time(mode: str) -> None:
    clock = FakeClock()
    hosts = made(mode, 2, clock)
    fail(hosts, "a")
    for delay_s in (30, 60, 120, 240, 480, 900, 900):
        clock.advance(delay_s * SECOND - 1)
        assert used(hosts, 5) == "bbbbb"
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
    hosts = made(mode)
    fail(hosts, "abc")
    assert all(host.is_dead for host in hosts.hosts)
    assert used(hosts, 1) == "a"
    assert not any(host.is_dead for host in hosts.hosts)


def test_the_tried_are_left_out_among_the_dead_too() -> None:
    hosts = made("hostpool")
    fail(hosts, "abc")
    assert hosts.take({"a:1"}).address == "b:1"


def test_the_quicker_host_gets_more() -> None:
    clock = FakeClock()
    hosts = made("epsilon-greedy", 2, clock)
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
    hosts = made("epsilon-greedy", 2, clock)
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
        made("random")
    with pytest.raises(ConfigError, match="no address is given"):
        made("hostpool", 0)


def test_an_address_given_twice_gets_twice_the_turns() -> None:
    hosts = hosts_of("round-robin", ["a:1", "a:1", "b:1"], FakeClock(), SystemChance())
    assert used(hosts, 6) == "aabaab"
