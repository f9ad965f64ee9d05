"""When to connect to which node."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.reconnect import START_MIN, TRIES, Reconnect
from penstock.testing.clock import FakeClock

CLOCK_STARTS = 0


class Still(SystemChance):
    """No jitter."""

    def __init__(self) -> None:
        super().__init__(1)
        self.fraction = lambda: 0.0


def nodes(
    *direct: str, start: float = 1.0, jitter: bool = False, interval: float = 60.0
) -> tuple[Reconnect, FakeClock]:
    clock = FakeClock(CLOCK_STARTS)
    config = Config(lookupd_poll_interval=interval)
    chance = SystemChance(1) if jitter else Still()
    return Reconnect(direct, config, clock, chance, start), clock


def test_each_address_once() -> None:
    made, _ = nodes("a:1", "b:1", "a:1")
    assert made.deadline == CLOCK_STARTS
    assert made.begin() == ["a:1", "b:1"]
    assert made.begin() == []
    assert made.deadline is None
    assert made.found(["b:1", "c:1", "c:1"]) == ["c:1"]
    assert made.begin() == ["c:1"]
    assert made.is_direct("a:1")
    assert not made.is_direct("c:1")


def test_a_direct_node_is_tried_for_ever_and_ever_less_often() -> None:
    made, clock = nodes("a:1")
    waits = []
    for _ in range(40):
        assert made.begin() == ["a:1"]
        waits.append(made.failed("a:1"))
        assert made.begin() == []
        clock.advance((made.deadline or 0) - clock.monotonic_ns())
    seconds = [(wait or 0) / SECOND for wait in waits]
    assert seconds[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(seconds[8:]) == {60}


def test_a_connection_starts_the_delays_anew() -> None:
    made, clock = nodes("a:1")
    for _ in range(5):
        made.begin()
        made.failed("a:1")
        clock.advance(60 * SECOND)
    assert not made.is_proven("a:1")
    made.begin()
    made.connected("a:1")
    assert made.is_proven("a:1")
    assert made.lost("a:1") == SECOND
    clock.advance(SECOND)
    assert made.begin() == ["a:1"]
    assert made.failed("a:1") == SECOND


def test_no_delay_is_longer_than_the_poll_interval() -> None:
    made, _ = nodes("a:1", interval=0.01)
    made.begin()
    assert made.failed("a:1") == 10 * MILLISECOND


@pytest.mark.parametrize("start", [0.0, -1.0])
def test_a_first_delay_of_none_is_doubled_all_the_same(start: float) -> None:
    made, clock = nodes("a:1", start=start)
    waits = []
    for _ in range(3):
        made.begin()
        waits.append(made.failed("a:1"))
        clock.advance((made.deadline or 0) - clock.monotonic_ns())
    assert waits == [START_MIN, 2 * START_MIN, 4 * START_MIN]


def test_a_first_delay_without_end_is_the_longest() -> None:
    made, _ = nodes("a:1", start=float("inf"))
    assert made.failed("a:1") == 60 * SECOND


def test_jitter() -> None:
    made, _ = nodes(*(f"a:{port}" for port in range(50)), jitter=True)
    waits = {made.failed(address) or 0 for address in made.begin()}
    assert len(waits) == 50
    assert 0.7 * SECOND <= min(waits) < max(waits) <= SECOND


def test_a_found_node_whose_connection_ends_is_left_to_nsqlookupd() -> None:
    made, _ = nodes()
    made.found(["a:1"])
    made.begin()
    made.connected("a:1")
    assert made.lost("a:1") is None
    assert made.deadline is None
    assert made.found(["a:1"]) == ["a:1"]


def test_a_found_node_that_is_gone_is_left_to_nsqlookupd() -> None:
    made, clock = nodes()
    made.found(["a:1"])
    waits = []
    for _ in range(TRIES):
        assert made.begin() == ["a:1"]
        waits.append(made.failed("a:1"))
        clock.advance(60 * SECOND)
    assert waits[-1] is None
    assert None not in waits[:-1]
    assert made.deadline is None
    assert made.found(["a:1"]) == ["a:1"]
    assert made.begin() == ["a:1"]


def test_unknown_addresses_are_mistakes() -> None:
    made, _ = nodes()
    with pytest.raises(KeyError):
        made.connected("a:1")
