"""Profiles: call stacks, processor time, memory, and pprof's form."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.profiles import call_stacks, cpu, heap
from penstock.net.profiles.call_stacks import DEPTH_MAX, Frame, Stack
from penstock.net.profiles.cpu import PERIOD_NS, CpuProfile
from penstock.net.profiles.heap import HeapProfile
from penstock.net.profiles.pprof import Profile, ValueType

from .proto import Read, read

INNER = Frame("m.inner", "m.py", 7, 5)
OUTER = Frame("m.outer", "m.py", 300, 200)


def test_all_of_it_is_read_back() -> None:
    cpu = ValueType("cpu", "nanoseconds")
    profile = Profile((ValueType("samples", "count"), cpu), program="nsqd", time_ns=1 << 60,
                      duration_ns=5, period=(cpu, 10**7), default="cpu",
                      comment="no comment")  # fmt: skip
    profile.add([INNER, OUTER], (3, 30_000_000), {"thread": "MainThread"})
    profile.add([OUTER], (0, -1))
    profile.add([], (1, 1))
    found = read(profile.encode())
    assert found.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert found.samples == [
        ([tuple(INNER), tuple(OUTER)], [3, 30_000_000], {"thread": "MainThread"}),
        ([tuple(OUTER)], [0, -1], {}),
        ([], [1, 1], {}),
    ]
    assert (found.program, found.time_ns, found.duration_ns) == ("nsqd", 1 << 60, 5)
    assert (found.period_type, found.period, found.default) == (tuple(cpu), 10**7, "cpu")
    assert found.comments == ["no comment"]


def test_equal_frames_are_kept_once() -> None:
    kind = ValueType("n", "count")
    few, many = (Profile((kind,), program="p", time_ns=1) for _ in range(2))
    few.add([INNER, OUTER], (1,))
    for _ in range(1000):
        many.add([INNER, OUTER], (1,))
    assert len(many._locations) == len(few._locations) == 2
    assert read(many.encode()).totals() == [1000]


def test_an_empty_profile_and_odd_names() -> None:
    kind = ValueType("n", "count")
    assert read(Profile((kind,), program="p", time_ns=1).encode()).samples == []
    profile = Profile((kind,), program="p", time_ns=1)
    profile.add([Frame("f\ud800ü", "x.py", 1, 1)], (1,))
    assert read(profile.encode()).functions() == {"f?ü"}


async def inner(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def outer(ready: asyncio.Event) -> None:
    await inner(ready)


def names(stack: Stack) -> list[str]:
    return [frame.function.rpartition(".")[2] for frame in stack.frames]


async def test_a_task_is_followed_to_what_it_awaits() -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(outer(ready), name="waits")
    await ready.wait()
    found = {stack.name: stack for stack in call_stacks.tasks()}
    assert names(found["waits"]) == ["wait", "inner", "outer"]
    (place,) = (frame for frame in found["waits"].frames if frame.function.endswith(".inner"))
    assert (place.function, place.file) == (f"{__name__}.inner", __file__)
    assert place.line == place.first_line + 2
    task.cancel()


def test_a_thread_shows_where_it_stands() -> None:
    started, end = threading.Event(), threading.Event()

    def stand() -> None:
        started.set()
        end.wait()

    thread = threading.Thread(target=stand, name="stands")
    thread.start()
    started.wait()
    try:
        found = {stack.name: stack for stack in call_stacks.threads()}
    finally:
        end.set()
        thread.join()
    assert "stand" in names(found["stands"])
    assert "test_a_thread_shows_where_it_stands" in names(found["MainThread"])


def test_deep_stacks_are_cut() -> None:
    def deeper(depth: int) -> list[Frame]:
        return deeper(depth - 1) if depth else call_stacks.frames_of(sys._getframe())

    assert len(deeper(3)) < DEPTH_MAX
    assert len(deeper(DEPTH_MAX)) == DEPTH_MAX
    assert call_stacks.frames_of(None) == []


def test_text_reads_like_a_traceback() -> None:
    places = [Frame("m.in", "none.py", 7, 5), Frame("m.out", "o.py", 1, 1)]
    assert call_stacks.as_text([Stack("thread", "MainThread", places)]) == (
        'thread MainThread\n  File "o.py", line 1, in m.out\n  File "none.py", line 7, in m.in\n'
    )
    shown = call_stacks.as_text([Stack("thread", "t", call_stacks.frames_of(sys._getframe()))])
    assert "    shown = call_stacks.as_text(" in shown


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


class Keeper:
    """Allocates in a method, in a function inside of it, and in a property."""

    def keep(self, size: int) -> list[bytes]:
        def one() -> bytes:
            return bytes(size)

        return [one() for _ in range(100)]

    @property
    def kept(self) -> bytes:
        return bytes(50_000)

    @staticmethod
    def static() -> bytes:
        return bytes(60_000)


@pytest.fixture
def watching() -> Iterator[None]:
    heap.watch()
    yield
    heap.unwatch()
    assert not tracemalloc.is_tracing()


@pytest.mark.usefixtures("watching")
def test_what_is_kept_is_shown_with_its_place() -> None:
    assert heap.is_watching()
    kept = [Keeper().keep(1000), Keeper().kept, Keeper.static()]
    lost = Keeper().keep(3000)
    del lost
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    found = read(profile.pprof())
    assert found.types == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert found.default == "inuse_space"
    sizes: dict[str, list[int]] = {}
    for stack, values, _ in sorted(found.samples, key=lambda sample: sample[1]):
        sizes[stack[0][0]] = values  # the largest of each place
    one = sizes[f"{__name__}.Keeper.keep.<locals>.one"]
    assert one[0] == 100
    assert 100_000 < one[1] < 110_000
    assert sizes[f"{__name__}.Keeper.kept"][1] > 50_000
    assert sizes[f"{__name__}.Keeper.static"][1] > 60_000
    stack = next(stack for stack, values, _ in found.samples if values == one)
    assert stack[1][0].endswith((".keep", ".<listcomp>"))
    assert f"{__name__}.test_what_is_kept_is_shown_with_its_place" in {place[0] for place in stack}
    text = profile.text()
    assert " bytes in 100 objects\n" in text
    assert f'File "{__file__}"' in text
    assert len(kept) == 3


@pytest.mark.usefixtures("watching")
def test_the_number_of_places_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "STACKS_MAX", 1)
    kept = [Keeper().kept, Keeper.static(), Keeper().keep(10)]
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    found = read(profile.pprof())
    assert len(found.samples) == 2
    assert found.samples[0][0][0][0] == f"{__name__}.Keeper.static"
    assert found.samples[1][0][0][0] == "(further stacks)"
    assert found.totals()[1] > 110_000
    assert len(kept) == 3


@pytest.mark.usefixtures("watching")
def test_code_of_no_module_goes_by_its_line() -> None:
    space: dict[str, bytes] = {}
    exec(compile("\n\nkept = bytes(77_000)", "<made up>", "exec"), space)
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    assert "<made up>:3" in read(profile.pprof()).functions()
    assert len(space["kept"]) == 77_000
