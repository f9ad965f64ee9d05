"""Replays what a real nsqd was seen to do against the nsqd under test, and reports each miss.

The samples (`samples/tcp.jsonl`, `samples/http.jsonl`) are grouped by their nsqd flags; each group
gets one fresh daemon. TCP cases use topics of their own and run together, so that their waits
overlap; HTTP cases of one group depend on the ones before and run in file order. Cases that need
TLS, compression or AUTH are left out for now, and counted.

By hand: `python -m tests.conformance.replay_nsqd [--nsqd PROGRAM] [--samples DIR] [NAME …]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.testing.daemons import Daemon, run_nsqd

from .parts import Names
from .replay_http import HttpSession
from .replay_tcp import Miss, TcpCase
from .samples import Case, load

SAMPLES = Path(__file__).parent / "samples"
CASE_S_MAX = 60.0
TOGETHER = 150
"""How many TCP cases of one daemon run at the same time."""
SHARE_MIN = 0.95

DIFFERENCES: dict[str, str] = {
    "sample-rate-1": "exactly the N percent of the manual; Go delivers N + 1",
    "disk-failure": "the log keeps its files open, so that publishing goes on",
    "stats-e2e": "end-to-end latency is not measured yet",
    "debug-put/setblockrate?rate=1": "200; Go's own handler is broken and ends in 500",
    "debug-post/freememory": "200; Go's own handler is broken and ends in 500",
    "debug-get/pprof/profile?seconds=1": "Go's binary format, of which Python has nothing to tell",
}
"""Cases in which Penstock differs on purpose: name -> reason."""


@dataclass
class Report:
    """The outcome of one sample file."""

    file: str
    left_out: int = 0
    held: list[str] = field(default_factory=list)
    misses: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the played cases that held."""
        return len(self.held) / max(1, len(self.held) + len(self.misses))

    def unlisted(self) -> list[str]:
        """The misses nobody has given a reason for."""
        return [name for name in self.misses if name not in DIFFERENCES]

    def __str__(self) -> str:
        lines = [
            f"{self.file}: {len(self.held)} of {len(self.held) + len(self.misses)} hold "
            f"({self.share:.1%}), {self.left_out} need TLS, compression or AUTH and were left out"
        ]
        for name, text in self.misses.items():
            reason = f"  [deliberate: {DIFFERENCES[name]}]" if name in DIFFERENCES else ""
            lines.append(f"- {name}{reason}\n{text}")
        return "\n".join(lines)


def belongs_to_later(case: Case) -> bool:
    """Whether the case needs TLS, compression or authorisation, judged by its content."""
    if any("--tls" in flag or "--auth" in flag for flag in case.get("flags", ())):
        return True
    steps = case.get("steps", ())
    if any("upgrade" in step or "authd" in step for step in steps):
        return True
    if any(str(step.get("send", [""])[0]).startswith("AUTH") for step in steps):
        return True
    requests = json.dumps([step.get("send") for step in steps])
    if all(f'\\"{name}\\":true' in requests for name in ("deflate", "snappy")):
        return True
    replies = json.dumps([step.get("expect") for step in steps])
    return any(f'\\"{name}\\":true' in replies for name in ("tls_v1", "deflate", "snappy"))


def changes_its_daemon(case: Case) -> bool:
    """Whether the case breaks the daemon it runs on, and so needs one alone."""
    return any("data directory" in step.get("note", "") for step in case.get("steps", ()))


def group(cases: Iterable[Case]) -> list[tuple[list[str], list[Case]]]:
    """Cases with equal flags together, in file order; one that breaks its daemon alone."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        alone = [case["name"]] if changes_its_daemon(case) else []
        groups.setdefault((*case.get("flags", ()), *alone), []).append(case)
    return [(members[0].get("flags", []), members) for members in groups.values()]


def free_ports() -> dict[str, str]:
    """A port for each of the three servers: some answers show the address as it was asked for."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [str(server.getsockname()[1]) for server in sockets]
    for server in sockets:
        server.close()
    return dict(zip(("tcp", "http", "https"), ports, strict=True))


async def _judge(case: Case, play: Any, report: Report) -> None:
    """Note how a case went. Whatever else is raised counts as a miss as well."""
    try:
        async with asyncio.timeout(CASE_S_MAX):
            await play
        report.held.append(case["name"])
    except Miss as miss:
        report.misses[case["name"]] = (
            f"    {miss.where}\n    expected {miss.expected}\n    actual   {miss.actual}"
        )
    except Exception as error:
        report.misses[case["name"]] = f"    {type(error).__name__}: {error}"


async def _tcp_group(
    cases: list[Case], daemon: Daemon, names: dict[str, str], report: Report
) -> None:
    """All together: each has topics of its own."""
    limit = asyncio.Semaphore(TOGETHER)
    plays = [TcpCase(case, daemon, Names(names)) for case in cases]

    async def play_one(case: Case, play: TcpCase) -> None:
        async with limit:
            await _judge(case, play.run(), report)

    try:
        await asyncio.gather(*map(play_one, cases, plays))
    finally:
        for play in plays:
            play.end()


async def _http_group(
    cases: list[Case], daemon: Daemon, names: dict[str, str], report: Report
) -> None:
    session = HttpSession(daemon, Names(names))
    try:
        for case in cases:
            await _judge(case, session.run(case), report)
    finally:
        session.close()


async def _group(flags: list[str], cases: list[Case], report: Report, program: str | None) -> None:
    """One fresh daemon and its cases. It is killed in the end: one case removes its data path."""
    ports = free_ports()
    addresses = [f"--{name}-address=127.0.0.1:{port}" for name, port in ports.items()]
    play = _tcp_group if "steps" in cases[0] else _http_group
    context = run_nsqd(*addresses, *flags, program=program)
    daemon = await asyncio.to_thread(context.__enter__)
    try:
        await play(cases, daemon, ports, report)
    finally:
        daemon.kill()
        context.__exit__(None, None, None)


async def replay(path: Path, program: str | None = None, only: Iterable[str] = ()) -> Report:
    """Play all cases of one file, or only those named. `program` replaces our own nsqd."""
    report = Report(path.name)
    chosen = set(only)
    cases = [case for case in load(path) if not chosen or case["name"] in chosen]
    kept = [case for case in cases if not belongs_to_later(case)]
    report.left_out = len(cases) - len(kept)
    await _play_all(kept, report, program)
    await _play_again(kept, report, program)
    return report


async def _play_all(cases: list[Case], report: Report, program: str | None) -> None:
    plays = [_group(flags, members, report, program) for flags, members in group(cases)]
    await asyncio.gather(*plays)


async def _play_again(cases: list[Case], report: Report, program: str | None) -> None:
    """TCP cases measure times: on a busy machine one may miss in the crowd and hold alone."""
    unlisted = set(report.unlisted())
    for case in cases:
        if case["name"] in unlisted and "steps" in case:
            alone = Report(report.file)
            await _play_all([case], alone, program)
            if alone.held:
                del report.misses[case["name"]]
                report.held += alone.held


def main() -> int:
    """Replay both files and print the reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsqd", help="another nsqd program to check")
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("names", nargs="*", help="only these cases")
    args = parser.parse_args()
    unlisted = 0
    for name in ("tcp.jsonl", "http.jsonl"):
        report = asyncio.run(replay(args.samples / name, args.nsqd, args.names))
        print(report)
        unlisted += len(report.unlisted())
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
