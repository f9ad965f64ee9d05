"""A lease: held until its time is over, and the members that it names."""

from __future__ import annotations

from penstock.core.units import MILLISECOND, SECOND
from penstock.node.lease import Lease
from penstock.testing.clock import FakeClock


def test_none_is_held_at_the_start() -> None:
    lease = Lease(FakeClock())
    assert lease.refusal == "this node holds no lease: penstock lease has not renewed it"
    assert (lease.left_ns, lease.members) == (0, ())


def test_it_is_held_until_its_time_and_not_at_it() -> None:
    clock = FakeClock()
    lease = Lease(clock)
    lease.grant(clock.monotonic_ns() + SECOND, ("b", "c"))
    assert (lease.refusal, lease.left_ns, lease.members) == ("", SECOND, ("b", "c"))
    clock.advance(SECOND - 1)
    assert (lease.refusal, lease.left_ns) == ("", 1)
    clock.advance(1)
    assert "holds no lease" in lease.refusal
    clock.advance(SECOND)
    assert lease.left_ns == 0
    lease.grant(clock.monotonic_ns() + 1, ())
    assert (lease.refusal, lease.members) == ("", ())


def test_figures_say_until_when_by_which_clock() -> None:
    clock = FakeClock()
    lease = Lease(clock)
    lease.grant(clock.monotonic_ns() + 2 * SECOND, ("b",))
    clock.advance(1500 * MILLISECOND)
    assert lease.figures() == {
        "clock_ns": clock.monotonic_ns(),
        "seconds_left": 0.5,
        "members": ["b"],
    }
