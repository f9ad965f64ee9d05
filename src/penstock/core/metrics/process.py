"""Metrics of every program: its versions, whether it is ready, its use of the machine.

``process_*`` and ``python_gc_*`` are named as Prometheus' own clients name them.
"""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import BYTES, FLAG, SECONDS, TIMESTAMP, MetricList

LIST: Final = MetricList()

INFO: Final = LIST.gauge(
    "penstock_info",
    "The program and its versions; the value is always 1.",
    FLAG,
    "program",
    "version",
    "python",
)
READY: Final = LIST.gauge("penstock_ready", "1 while /ready answers OK.", FLAG)
CPU: Final = LIST.counter(
    "process_cpu_seconds_total", "Processor time in user and system mode.", SECONDS
)
RESIDENT: Final = LIST.gauge("process_resident_memory_bytes", "Memory in RAM.", BYTES)
VIRTUAL: Final = LIST.gauge("process_virtual_memory_bytes", "Memory that is mapped.", BYTES)
OPEN_FILES: Final = LIST.gauge("process_open_fds", "Open file handles.")
OPEN_FILES_MAX: Final = LIST.gauge("process_max_fds", "Limit of open file handles.")
START_TIME: Final = LIST.gauge(
    "process_start_time_seconds", "Start, in seconds since 1970.", TIMESTAMP
)
GC_COLLECTIONS: Final = LIST.counter(
    "python_gc_collections_total", "Runs of the garbage collector.", "", "generation"
)
GC_COLLECTED: Final = LIST.counter(
    "python_gc_objects_collected_total", "Objects that it found to be garbage.", "", "generation"
)
GC_UNCOLLECTABLE: Final = LIST.counter(
    "python_gc_objects_uncollectable_total", "Objects that it could not free.", "", "generation"
)
GC_PAUSES: Final = LIST.summary(
    "python_gc_pause_seconds", "How long collections took; quantiles are of the last 256.", SECONDS
)
