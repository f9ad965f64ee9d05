"""What a benchmark shows and keeps: a line for each server, and all figures as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from harness import Result, environment, median

RESULTS = Path(__file__).parent / "results"
KEPT = Path(__file__).parent / "figures.json"
OURS = "penstock"

Table = dict[str, dict[str, Result]]
"""Measured part -> server -> its result."""

Runs = dict[str, dict[str, list[Result]]]
"""Measured part -> server -> the results of its rounds."""


def named(text: str) -> tuple[str, str]:
    """A further server of the command line, ``NAME=PATH``; ValueError: without the ``=``."""
    name, _, path = text.partition("=")
    if not (name and path):
        raise ValueError(text)
    return name, path


def add_round(runs: Runs, server: str, results: Mapping[str, Result]) -> None:
    """Put what a round of a server has measured, by part, behind its earlier rounds."""
    for part, result in results.items():
        runs.setdefault(part, {}).setdefault(server, []).append(result)


def print_part(part: str, by_server: Mapping[str, Result]) -> None:
    """One line for each server; the ratio is ours over this one."""
    ours = by_server.get(OURS)
    for server, result in by_server.items():
        other = None if server == OURS else ours
        shown = _rate(result, other) if result.latency is None else _delays(result, other)
        print(
            f"{part:30} {server:12} {shown}  server {result.cpu_us:7.2f} us/msg "
            f"{result.server_load:4.2f} CPU {result.peak_mb:6,.0f} MB, "
            f"clients {result.client_load:4.2f} CPU",
            flush=True,
        )


def print_rounds(table: Table, runs: Mapping[str, Mapping[str, Sequence[Result]]]) -> None:
    """Put the median of the rounds of each part into the table, and show it with their range."""
    for part, by_server in runs.items():
        table[part] = {who: median(rounds) for who, rounds in by_server.items()}
        print_part(part, table[part])
        _print_ranges(by_server)


def _print_ranges(by_server: Mapping[str, Sequence[Result]]) -> None:
    """The slowest and the fastest round of each server; of delays, least and most p50 and p99."""
    ranges = []
    for name, rounds in by_server.items():
        delays = [each.latency for each in rounds if each.latency is not None]
        if delays:
            p50, p99 = (sorted(getattr(each, which) for each in delays) for which in ("p50", "p99"))
            ranges.append(
                f"{name} {p50[0]:,.0f} to {p50[-1]:,.0f}, {p99[0]:,.0f} to {p99[-1]:,.0f}"
            )
        else:
            rates = sorted(each.rate for each in rounds)
            ranges.append(f"{name} {rates[0]:,.0f} to {rates[-1]:,.0f}")
    print(f"{'':30} {'; '.join(ranges)}", flush=True)


def _rate(result: Result, ours: Result | None) -> str:
    ratio = "" if ours is None else f"{ours.rate / result.rate:.2f} x"
    return f"{result.rate:11,.0f} msg/s {ratio:>15}"


def _delays(result: Result, ours: Result | None) -> str:
    assert result.latency is not None
    ratios = ""
    if ours is not None and ours.latency is not None:
        p50, p99 = ours.latency.p50 / result.latency.p50, ours.latency.p99 / result.latency.p99
        ratios = f"{p50:.2f} x {p99:.2f} x"
    return f"{result.latency.p50:7,.0f} {result.latency.p99:6,.0f} us {ratios:>15}"


def save(kind: str, table: Table, more: Mapping[str, object]) -> None:
    """Write the figures as JSON; names starting with `local-` are not kept in the repository."""
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    figures = {
        part: {server: _figures(result) for server, result in by_server.items()}
        for part, by_server in table.items()
    }
    path = RESULTS / f"local-{kind}-{stamp}.json"
    content = {"environment": environment(), **more, "figures": figures}
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {path}")


def keep(table: Table, size: int) -> None:
    """Write the figures that pages show, in place of those of an earlier run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, check=True, text=True
    ).stdout.strip()
    shown = ("msg_per_s", "server_cpu_us_per_msg")
    content = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, which clients and server share",
        "python": platform.python_version(),
        "size": size,
        "figures": {
            part: {
                server: {name: _figures(result)[name] for name in shown}
                for server, result in by_server.items()
            }
            for part, by_server in table.items()
        },
    }
    KEPT.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {KEPT}; `python -m tools.pages.figures` shows them on the pages")


def _figures(result: Result) -> dict[str, object]:
    figures: dict[str, object] = {
        "messages": result.messages,
        "msg_per_s": round(result.rate),
        "server_cpu_us_per_msg": round(result.cpu_us, 3),
        "server_cpus": round(result.server_load, 2),
        "server_peak_mb": round(result.peak_mb, 1),
        "client_cpus": round(result.client_load, 2),
    }
    if result.latency is not None:
        figures["delay_us"] = {name: round(us) for name, us in asdict(result.latency).items()}
    return figures
