"""Replays what a real nsqd was seen to do against the nsqd under test, and reports each miss.

The samples (`samples/tcp.jsonl`, `samples/http.jsonl`) are grouped by their nsqd flags; each group
gets one fresh daemon. TCP cases use topics of their own and run together, so that their waits
overlap; HTTP cases of one group depend on the ones before and run in file order. All share one set
of certificates and one auth server, which tells the cases apart by their secrets.

By hand: `python -m tools.replay.replay_nsqd [--nsqd PROGRAM] [--samples DIR] [NAME …]`
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.testing.daemons import Daemon, DaemonError, run_nsqd
from tools.harness.auth_server import run_auth_server
from tools.harness.certificates import Certificates
from tools.harness.ports import unused_address
from tools.harness.samples import RECORDINGS, Case, load
from tools.pages.differences import CLI, HTTP, TCP

from .parts import Names
from .replay_cli import replay_cli
from .replay_http import HttpSession
from .replay_tcp import Peers, TcpCase
from .report import Report

FILES = (TCP, HTTP, CLI)
CASE_S_MAX = 60.0
TOGETHER = 150
"""How many TCP cases of one daemon run at the same time."""
DAEMONS = 6
"""How many daemons run at the same time."""
TRIES_MAX = 5
LATE_S_MAX = 0.1
"""A case that took this much longer from step to step than when it was recorded proves nothing:
what was to come later came in what was to be silence. It is played again.
"""


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
    return {name: unused_address().rpartition(":")[2] for name in ("tcp", "http", "https")}


async def _judge(case: Case, play: Awaitable[None], report: Report) -> None:
    """Note how a case went. Whatever else is raised counts as a miss as well."""
    try:
        async with asyncio.timeout(CASE_S_MAX):
            await play
        report.held.append(case["name"])
    except Exception as error:
        report.miss(case["name"], error)


async def _tcp_group(
    cases: list[Case], daemon: Daemon, names: dict[str, str], peers: Peers, report: Report
) -> None:
    """All together: each has topics of its own."""
    limit = asyncio.Semaphore(TOGETHER)
    plays = [TcpCase(case, daemon, Names(names), peers) for case in cases]

    async def play_one(case: Case, play: TcpCase) -> None:
        async with limit:
            await _judge(case, play.run(), report)

    try:
        await asyncio.gather(*map(play_one, cases, plays))
    finally:
        for play in plays:
            play.end()
    report.late |= {play.name for play in plays if play.late_s > LATE_S_MAX}


async def _http_group(
    cases: list[Case], daemon: Daemon, names: dict[str, str], peers: Peers, report: Report
) -> None:
    session = HttpSession(daemon, Names(names))
    try:
        for case in cases:
            await _judge(case, session.run(case), report)
    finally:
        session.close()


class Replay:
    """One run over one sample file. `program` replaces our own nsqd."""

    def __init__(self, file: str, peers: Peers, program: str | None) -> None:
        self.report = Report(file)
        self._peers = peers
        self._program = program
        self._room = asyncio.Semaphore(DAEMONS)

    async def play(self, cases: list[Case]) -> None:
        """Play these cases; a TCP case that misses in the crowd may hold alone, and in time."""
        await self._play_all(cases, self.report)
        failed = set(self.report.failed)
        for case in cases:
            if case["name"] in failed and "steps" in case:
                await self._play_alone(case)

    async def _play_alone(self, case: Case) -> None:
        for _ in range(TRIES_MAX):
            alone = Report(self.report.file)
            await self._play_all([case], alone)
            self.report.misses |= alone.misses
            if alone.held:
                del self.report.misses[case["name"]]
                self.report.held += alone.held
            if alone.held or not alone.late:
                return

    async def _play_all(self, cases: list[Case], report: Report) -> None:
        plays = [self._group(flags, members, report) for flags, members in group(cases)]
        await asyncio.gather(*plays)

    async def _group(self, flags: list[str], cases: list[Case], report: Report) -> None:
        """One fresh daemon and its cases. It is killed in the end: one removes its data path."""
        play = _tcp_group if "steps" in cases[0] else _http_group
        async with self._room:
            with ExitStack() as stack:
                try:
                    daemon, names = await self._start(flags, stack)
                except DaemonError as error:
                    for case in cases:
                        report.miss(case["name"], error)
                    return
                stack.callback(daemon.kill)
                await play(cases, daemon, names, self._peers, report)

    async def _start(self, flags: list[str], stack: ExitStack) -> tuple[Daemon, dict[str, str]]:
        """Start a daemon; returns it with the placeholders for its ports."""
        ports = free_ports()
        names = {**ports, **placeholders(self._peers)}
        addresses = [f"--{name}-address=127.0.0.1:{port}" for name, port in ports.items()]
        words = [Names(names).fill(flag) for flag in flags]
        context = run_nsqd(*addresses, *words, program=self._program)
        return await asyncio.to_thread(stack.enter_context, context), names


def placeholders(peers: Peers) -> dict[str, str]:
    """What stands for the certificates and the auth server in the samples."""
    return {**peers.certificates.placeholders(), "auth": peers.auth.address}


@contextmanager
def run_peers() -> Iterator[Peers]:
    """Certificates and an auth server until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder, run_auth_server() as auth:
        yield Peers(Certificates(Path(folder)), auth)


async def replay(path: Path, program: str | None = None, only: Iterable[str] = ()) -> Report:
    """Play all cases of one file, or only those named. `program` replaces our own nsqd."""
    chosen = set(only)
    cases = [case for case in load(path) if not chosen or case["name"] in chosen]
    with run_peers() as peers:
        run = Replay(path.name, peers, program)
        await run.play(cases)
        return run.report


def replay_file(path: Path, program: str | None = None, only: Iterable[str] = ()) -> Report:
    """The same for any file of nsqd's samples, the command lines included."""
    if path.name == CLI:
        return replay_cli(path, program, only)
    return asyncio.run(replay(path, program, only))


def main() -> int:
    """Replay all files and print the reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsqd", help="another nsqd program to check")
    parser.add_argument("--samples", type=Path, default=RECORDINGS)
    parser.add_argument("names", nargs="*", help="only these cases")
    args = parser.parse_args()
    failed = 0
    for name in FILES:
        report = replay_file(args.samples / name, args.nsqd, args.names)
        print(report)
        failed += len(report.failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
