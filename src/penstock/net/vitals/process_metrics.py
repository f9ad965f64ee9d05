"""The metrics of the process: memory, processor, files, garbage collection."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator

from penstock.core.metrics import process as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.core.units import SECOND
from penstock.net import process
from penstock.net.gc_pauses import GcPauses


def of(started_ns: int, pauses: GcPauses) -> Iterator[Samples]:
    """The figures now; ``started_ns`` is the wall clock at the program's start."""
    memory, limit = process.memory(), process.open_files_max()
    for metric, value in (
        (metrics.CPU, process.cpu_seconds()),
        (metrics.RESIDENT, memory.resident),
        (metrics.VIRTUAL, memory.virtual),
        (metrics.OPEN_FILES, process.open_files()),
        (metrics.OPEN_FILES_MAX, math.inf if limit is None else limit),
        (metrics.START_TIME, started_ns / SECOND),
    ):
        yield Samples.single(metric, value)
    yield from _garbage_collections(pauses)


def _garbage_collections(pauses: GcPauses) -> Iterator[Samples]:
    counts = gc.get_stats()
    for metric, key in (
        (metrics.GC_COLLECTIONS, "collections"),
        (metrics.GC_COLLECTED, "collected"),
        (metrics.GC_UNCOLLECTABLE, "uncollectable"),
    ):
        samples = Samples(metric)
        for generation, of_generation in enumerate(counts):
            samples.add(of_generation[key], labels({"generation": str(generation)}))
        yield samples
    samples = Samples(metrics.GC_PAUSES)
    quantiles = [(each, pauses.percentile(each * 100) / SECOND) for each in (0.95, 0.99, 1)]
    samples.summarize({}, quantiles, pauses.total_ns / SECOND, pauses.count)
    yield samples
