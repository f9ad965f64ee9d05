"""The first signal asks, a later one insists."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.cli.shared.stop import Stop
from penstock.testing.clock import FakeClock


def test_a_signal_asks_and_a_later_one_interrupts() -> None:
    clock = FakeClock()
    before = signal.getsignal(signal.SIGTERM)
    with Stop(clock) as stop:
        assert not stop.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
        clock.advance(200_000_000)
        os.kill(os.getpid(), signal.SIGINT)  # the echo of the first
        clock.advance(1_000_000_000)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_sleep_ends_when_a_signal_comes() -> None:
    clock = FakeClock()  # it stands still: only the signal ends this
    with Stop(clock) as stop:
        signal.signal(signal.SIGALRM, stop._on_signal)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        stop.sleep_until(clock.monotonic_ns() + 10**12)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        assert stop.asked


def test_sleep_ends_at_its_time() -> None:
    clock = FakeClock()
    with Stop(clock) as stop:
        stop.sleep_until(clock.monotonic_ns())
        assert not stop.asked
