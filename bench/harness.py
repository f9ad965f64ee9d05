"""What every benchmark needs: client processes with a common start, and readings of the server."""

from __future__ import annotations

import multiprocessing
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import BrokenBarrierError

import numpy as np
from clients import Share

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CLIENT_S_MAX = 600.0
SETTLE_S = 0.5
"""What a fresh server may take to load what its first answers do not need; not to be measured."""


@dataclass(frozen=True)
class Latency:
    """From publish to consumer, in microseconds."""

    p50: float
    p99: float
    worst: float


@dataclass(frozen=True)
class Result:
    """One run: rate, server CPU, its peak memory so far, and how busy the clients were."""

    messages: int
    seconds: float
    server_cpu_s: float
    client_cpu_s: float
    peak_mb: float
    latency: Latency | None = None

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        """Server CPU microseconds per message."""
        return self.server_cpu_s / self.messages * 1e6

    @property
    def server_load(self) -> float:
        """CPU seconds of the server per second."""
        return self.server_cpu_s / self.seconds

    @property
    def client_load(self) -> float:
        """CPU seconds of all clients per second: near their number, they were the bottleneck."""
        return self.client_cpu_s / self.seconds


def server_cpu_s(pid: int) -> float:
    """User and system time the process has used so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_mb(pid: int) -> float:
    """The memory the process has resident now, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb(pid: int) -> float:
    """The most memory the process ever had resident (VmHWM), in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmHWM")


def measure(pids: Sequence[int], clients: Sequence[Callable[..., Share]]) -> Result:
    """Run the clients, each in a process, started together; each is called with `wait=`.

    `pids` are the servers, whose CPU and memory count together.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(clients) + 1)
    results = context.SimpleQueue()
    processes = [
        context.Process(target=_work, args=(client, barrier, results)) for client in clients
    ]
    for process in processes:
        process.start()
    with suppress(Exception):  # a client that failed has put its reason into the queue
        barrier.wait(CLIENT_S_MAX)
    cpu = sum(map(server_cpu_s, pids))
    outcomes = [results.get() for _ in clients]
    used = sum(map(server_cpu_s, pids)) - cpu
    for process in processes:
        process.join()
    failures = [outcome for outcome in outcomes if not isinstance(outcome, Share)]
    if failures:
        failures.sort(key=lambda failure: failure.startswith(BrokenBarrierError.__name__))
        raise RuntimeError(failures[0])
    return _together(outcomes, used, sum(map(peak_mb, pids)))


def _work(client: Callable[..., Share], barrier: object, results: object) -> None:
    try:
        results.put(client(wait=barrier.wait))  # type: ignore[attr-defined]
    except Exception as error:
        barrier.abort()  # type: ignore[attr-defined]
        results.put(f"{type(error).__name__}: {error}")  # type: ignore[attr-defined]


def _together(shares: list[Share], used: float, peak: float) -> Result:
    seconds = max(share.end for share in shares) - min(share.start for share in shares)
    messages = sum(share.messages for share in shares)
    cpu_s = sum(share.cpu_s for share in shares)
    return Result(messages, seconds, used, cpu_s, peak, _latency(shares))


def _latency(shares: list[Share]) -> Latency | None:
    delays = [share.delays_ns for share in shares if share.delays_ns is not None]
    if not delays:
        return None
    p50, p99, worst = np.percentile(np.concatenate(delays), [50, 99, 100]) / 1000
    return Latency(float(p50), float(p99), float(worst))


def median(results: Sequence[Result]) -> Result:
    """The run with the middle rate or, where that was measured, the middle p99."""
    keys = [result.latency.p99 if result.latency else result.rate for result in results]
    return results[keys.index(statistics.median_low(keys))]


def environment() -> dict[str, object]:
    """What a reader needs to compare figures."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }
