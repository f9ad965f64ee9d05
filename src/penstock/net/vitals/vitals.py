"""/ping, /ready and /metrics of a program, whose parts say what belongs on these pages.

    vitals = Vitals("nsqd", clock, health=lambda: node.health)
    vitals.checks.append(lookup.missing)
    vitals.sources.append(metrics.source)
    vitals.add_routes(router, metrics=True)

A check gives lines of what keeps the program from its work, a source is a generator of Samples.
"""

from __future__ import annotations

import asyncio
import gc
import math
import platform
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Final

import penstock
from penstock.core.clock import Clock
from penstock.core.metrics import process as own
from penstock.core.metrics.exposition import CONTENT_TYPE, Samples, labels
from penstock.core.units import MICROSECOND, SECOND
from penstock.net import process
from penstock.net.http.server.message import Request, Response, text
from penstock.net.http.server.router import Router

_KEPT: Final = 256


class GcPauses:
    """The durations of the last collections in this process, in nanoseconds.

    Between ``start`` and ``stop`` every collection is timed, which costs about a microsecond each.
    """

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self.total_ns = 0
        self._clock = clock
        self._began: int | None = None
        self._last: deque[int] = deque(maxlen=_KEPT)

    def start(self) -> None:
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now = self._clock.monotonic_ns()
        if phase == "start":
            self._began = now
        elif self._began is not None:
            self._last.append(now - self._began)
            self.count += 1
            self.total_ns += now - self._began
            self._began = None

    def percentile(self, percent: float) -> int:
        """A percentile of the last 256 pauses, by Go's rule for this figure; 0 without a pause."""
        if not self._last:
            return 0
        index = int(percent / 100 * len(self._last) + 0.5)
        return sorted(self._last)[min(index, len(self._last) - 1)]


Check = Callable[[], Iterable[str]]
Source = Callable[[], AsyncIterator[Samples]]

HEALTHY: Final = "OK"


class Vitals:
    """The pages of one program; ``start`` begins to time its garbage collections."""

    def __init__(
        self, program: str, clock: Clock, health: Callable[[], str] = lambda: HEALTHY
    ) -> None:
        """``health`` is ``OK``, or what an operator has to see to."""
        self.checks: list[Check] = []
        """Each gives a line for everything that keeps the program from its work."""
        self.sources: list[Source] = []
        self.gc_pauses = GcPauses(clock)
        self.started_ns = clock.wall_ns()
        self.shows_metrics = False
        self._program = program
        self.health = health

    def start(self) -> None:
        self.gc_pauses.start()

    def close(self) -> None:
        self.gc_pauses.stop()

    def add_routes(self, router: Router, *, metrics: bool) -> None:
        router.add("GET", "/live", self.live, quiet=True)
        router.add("GET", "/ping", self.ping)
        router.add("GET", "/ready", self.ready, quiet=True)
        self.shows_metrics |= metrics
        if metrics:
            router.add("GET", "/metrics", self.metrics, quiet=True)

    def missing(self) -> list[str]:
        """The reasons why the program is not ready, a line each; empty if it is."""
        return [line for check in self.checks for line in check()]

    def now(self, path: str) -> Response | None:
        """The page at a path, made in one go in any thread; None for other paths.

        Raises RuntimeError if what it shows is changed meanwhile.
        """
        if path == "/metrics" and self.shows_metrics:
            return Response(200, _run_without_a_loop(self._whole()), CONTENT_TYPE)
        page = {"/live": self.live, "/ping": self.ping, "/ready": self.ready}.get(path)
        return None if page is None else page()

    def live(self, request: Request | None = None) -> Response:
        """GET /live: 200 whenever the program answers; where it does not, a restart may help."""
        return text(HEALTHY)

    def ping(self, request: Request | None = None) -> Response:
        """GET /ping: 500 if the program is up and something is wrong with it."""
        health = self.health()
        return text(health, 200 if health == HEALTHY else 500)

    def ready(self, request: Request | None = None) -> Response:
        """GET /ready: 503 with the reasons until the program does its work."""
        missing = self.missing()
        return text("\n".join(missing), 503) if missing else text(HEALTHY)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics, made in pieces between which the program does its work."""
        body: list[bytes | memoryview] = []
        async for made in self._texts():
            body.append(made)
            await asyncio.sleep(0)
        return Response(200, body, CONTENT_TYPE)

    async def _whole(self) -> bytes:
        return b"".join([piece async for piece in self._texts()])

    async def _texts(self) -> AsyncIterator[bytes]:
        for source in (*self.sources, self._of_process):
            async for samples in source():
                yield samples.text().encode()

    async def _of_process(self) -> AsyncIterator[Samples]:
        versions = (self._program, penstock.__version__, platform.python_version())
        yield Samples.single(own.INFO, 1, *versions)
        yield Samples.single(own.READY, not self.missing())
        for samples in of_process(self.started_ns, self.gc_pauses):
            yield samples

    def go_memory(self) -> dict[str, int]:
        """Go's memory keys of /stats with the nearest figures CPython has.

        Objects are blocks that Python's allocator has given out, bytes in use are those of the
        process in RAM, idle ones what the C library keeps free. CPython returns memory without
        counting it and starts a collection by the number of objects, not of bytes: those two are 0.
        """
        pauses = self.gc_pauses
        return {
            "heap_objects": sys.getallocatedblocks(),
            "heap_idle_bytes": process.free_heap(),
            "heap_in_use_bytes": process.memory().resident,
            "heap_released_bytes": 0,
            "gc_pause_usec_100": pauses.percentile(100) // MICROSECOND,
            "gc_pause_usec_99": pauses.percentile(99) // MICROSECOND,
            "gc_pause_usec_95": pauses.percentile(95) // MICROSECOND,
            "next_gc_bytes": 0,
            "gc_total_runs": sum(generation["collections"] for generation in gc.get_stats()),
        }


def _run_without_a_loop(work: Coroutine[None, None, bytes]) -> bytes:
    """Run what only pauses, and never waits for anything, to its end."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return bytes(end.value)


def of_process(started_ns: int, pauses: GcPauses) -> Iterator[Samples]:
    """Memory, processor, files and garbage collections of the process, now.

    ``started_ns`` is the wall clock at the program's start.
    """
    memory, limit = process.memory(), process.open_files_max()
    for metric, value in (
        (own.CPU, process.cpu_seconds()),
        (own.RESIDENT, memory.resident),
        (own.VIRTUAL, memory.virtual),
        (own.OPEN_FILES, process.open_files()),
        (own.OPEN_FILES_MAX, math.inf if limit is None else limit),
        (own.START_TIME, started_ns / SECOND),
    ):
        yield Samples.single(metric, value)
    yield from _garbage_collections(pauses)


def _garbage_collections(pauses: GcPauses) -> Iterator[Samples]:
    counts = gc.get_stats()
    for metric, key in (
        (own.GC_COLLECTIONS, "collections"),
        (own.GC_COLLECTED, "collected"),
        (own.GC_UNCOLLECTABLE, "uncollectable"),
    ):
        samples = Samples(metric)
        for generation, of_generation in enumerate(counts):
            samples.add(of_generation[key], labels({"generation": str(generation)}))
        yield samples
    samples = Samples(own.GC_PAUSES)
    quantiles = [(each, pauses.percentile(each * 100) / SECOND) for each in (0.95, 0.99, 1)]
    samples.summarize({}, quantiles, pauses.total_ns / SECOND, pauses.count)
    yield samples
