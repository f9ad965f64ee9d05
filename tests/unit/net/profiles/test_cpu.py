from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.profiles import cpu
from penstock.net.profiles.cpu import PERIOD_NS, CpuProfile

from .proto import Read, read

MILLISECOND = 10**6


def burn(ns: int) -> None:
    """Take so much processor time."""
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        sum(range(500))


def profiled(work: Callable[[], None]) -> CpuProfile:
    profile = CpuProfile(SYSTEM_CLOCK)
    profile.start()
    try:
        work()
    finally:
        profile.stop()
    return profile


def charged(found: Read, function: str) -> int:
    """Nanoseconds in a function and what it called."""
    return sum(
        values[1]
        for stack, values, _ in found.samples
        if any(frame[0].endswith(f".{function}") for frame in stack)
    )


def test_the_function_that_worked_is_charged() -> None:
    found = read(profiled(lambda: burn(200 * MILLISECOND)).pprof())
    assert found.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert (found.period_type, found.period) == (("cpu", "nanoseconds"), PERIOD_NS)
    assert found.default == "cpu"
    assert found.duration_ns >= 200 * MILLISECOND
    # On a busy machine the sampler comes late, so there are fewer samples, of the same function.
    everything = sum(values[1] for _, values, _ in found.samples)
    assert 0.6 * everything <= charged(found, "burn") <= 400 * MILLISECOND
    stack, values, labels = max(found.samples, key=lambda sample: sample[1][1])
    assert labels == {"thread": "MainThread"}
    assert values[0] >= 1
    assert stack[0][0] == f"{__name__}.burn"
    assert stack[0][1] == __file__


def test_who_waits_is_charged_nothing() -> None:
    found = read(profiled(lambda: time.sleep(0.1)).pprof())
    assert charged(found, "test_who_waits_is_charged_nothing") < 30 * MILLISECOND


def test_other_threads_are_charged_by_their_own_clock() -> None:
    def work() -> None:
        thread = threading.Thread(target=burn, args=(150 * MILLISECOND,), name="worker")
        thread.start()
        while thread.is_alive():
            time.sleep(0.002)  # as the event loop does, the main thread looks in now and then

    found = read(profiled(work).pprof())
    spent: Counter[str] = Counter()  # other tests may have left threads behind
    for _, values, labels in found.samples:
        spent[labels["thread"]] += values[1]
    assert spent["worker"] > 80 * MILLISECOND
    assert charged(found, "burn") == spent["worker"] > spent["MainThread"]


def test_folded_stacks() -> None:
    lines = profiled(lambda: burn(100 * MILLISECOND)).folded().splitlines()
    stack, _, microseconds = max(lines, key=lambda line: int(line.split()[-1])).rpartition(" ")
    assert stack.startswith("MainThread;")
    assert stack.endswith(f";{__name__}.burn")
    assert int(microseconds) > 10_000


def test_a_late_signal_ends_nobody() -> None:
    profiled(lambda: None)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_IGN
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    signal.raise_signal(signal.SIGPROF)


def test_only_the_main_thread_can() -> None:
    failed: list[Exception] = []

    def start() -> None:
        try:
            CpuProfile(SYSTEM_CLOCK).start()
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(failed) == 1
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_without_clocks_of_threads_all_is_the_main_threads() -> None:
    profile = CpuProfile(SYSTEM_CLOCK, lambda native_id: None)
    for _ in range(3):
        profile._on_timer(signal.SIGPROF, sys._getframe())
    found = read(profile.pprof())
    assert found.totals() == [3, 3 * PERIOD_NS]
    assert {labels["thread"] for _, _, labels in found.samples} == {"MainThread"}


def test_the_number_of_stacks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "STACKS_MAX", 2)
    profile = CpuProfile(SYSTEM_CLOCK, lambda native_id: None)

    def look(depth: int) -> None:
        if depth:
            look(depth - 1)
        else:
            profile._on_timer(signal.SIGPROF, sys._getframe())

    for depth in range(5):
        look(depth)
    found = read(profile.pprof())
    assert len(found.samples) == 3
    assert found.totals() == [5, 5 * PERIOD_NS]
    assert "(further stacks)" in found.functions()


def test_a_look_during_a_look_is_left_out() -> None:
    profile = CpuProfile(SYSTEM_CLOCK, lambda native_id: None)
    profile._looking = True
    profile._on_timer(signal.SIGPROF, None)
    assert read(profile.pprof()).samples == []
