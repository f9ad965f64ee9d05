"""Three machines that nobody looks after: nsqd, etcd and ``penstock lease`` on each, under faults.

Each machine is a network namespace. A round is one fault of the machine that is primary, under
publishes to all three, until somebody says OK again; then all is mended. Held against what the
publishers were told: never do two nodes say OK by turns, nothing acknowledged is missing, and each
round has a primary again. The time until then is the figure of the campaign.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.log_api.log_client import LogClient
from penstock.net.http.client.once import HttpError, request

from .mounts import need
from .report import Result, explained, progress
from .wires import Namespaces

SECONDS: Final = 6
"""The time of the lease."""
WAIT_S: Final = 180.0
ASK_S: Final = 2.0
PAUSE_S: Final = 0.02
TOPIC: Final = "unattended"
_BODY_AT: Final = 34
FLAGS: Final = ("--needs-lease", "--replicas-acked=1", "--replicas-missing=go-on",
                "--replicas-timeout=2s", "--max-bytes-per-file=1048576",
                "--retention-time=1000h", "--log-level=info")  # fmt: skip
KINDS: Final = ("killed", "killed for long", "cut", "parted", "stopped", "lease program stopped",
                "store stopped", "copy behind")  # fmt: skip


class Ok(NamedTuple):
    """A message that a node acknowledged between two moments."""

    sent: float
    received: float
    node: int
    number: int


class Machine:
    """The three processes of a machine, each in its namespace."""

    def __init__(
        self, network: Namespaces, number: int, folder: Path, hosts: Sequence[str]
    ) -> None:
        self.number = number
        self.host = hosts[number]
        self.folder = folder / f"machine{number}"
        (self.folder / "data").mkdir(parents=True)
        self._circumstances = network.circumstances(number)
        self.put_aside = 0
        """The times at which it had to be started again as a copy."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        others = [each for each in hosts if each != self.host]
        follow = [f"--follow={hosts[0]}:4151"] if number else []
        peers = ",".join(f"m{place}=http://{each}:2380" for place, each in enumerate(hosts))
        etcd = ",".join([f"{self.host}:2379", *(f"{each}:2379" for each in others)])
        python = [sys.executable, "-m"]
        self._words: dict[str, list[str]] = {
            "nsqd": [*python, "penstock.cli.nsqd", *FLAGS, *follow,
                     f"--data-path={self.folder / 'data'}", f"--broadcast-address={self.host}"],
            "etcd": ["etcd", f"--name=m{number}",
                     f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync",
                     "--heartbeat-interval=200", "--election-timeout=2000",
                     f"--listen-client-urls=http://{self.host}:2379",
                     f"--advertise-client-urls=http://{self.host}:2379",
                     f"--listen-peer-urls=http://{self.host}:2380",
                     f"--initial-advertise-peer-urls=http://{self.host}:2380",
                     f"--initial-cluster={peers}"],
            "lease": [*python, "penstock.cli.penstock", "lease", f"etcd://{etcd}/campaign",
                      f"{self.host}:4151", f"--duration={SECONDS}s"],
        }  # fmt: skip

    def _enter(self) -> None:
        for each in self._circumstances:
            each()

    def start(self, *names: str) -> None:
        """Start those of these processes that do not run."""
        for name in names or tuple(self._words):
            process = self._processes.get(name)
            if process is None or process.poll() is not None:
                with (self.folder / f"{name}.log").open("ab") as log:
                    self._processes[name] = subprocess.Popen(
                        self._words[name], stdout=log, stderr=log, preexec_fn=self._enter
                    )

    def signal(self, name: str, number: int) -> None:
        self._processes[name].send_signal(number)

    def kill(self, *names: str) -> None:
        for name in names or tuple(self._processes):
            process = self._processes[name]
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(60)

    def follow(self, host: str) -> None:
        """Start nsqd again as a copy, as the units and Kubernetes do with a node that stays fenced:
        what only it has is put aside.
        """
        self.kill("nsqd")
        words = [each for each in self._words["nsqd"] if not each.startswith("--follow=")]
        self._words["nsqd"] = [*words, f"--follow={host}:4151"]
        self.start("nsqd")
        self.put_aside += 1

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]


class Publishers:
    """One publisher for each node, which tries again whatever it is told."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.oks: list[Ok] = []
        self.attempted = 0
        self._tasks = [asyncio.create_task(self._run(each)) for each in machines]

    async def _run(self, machine: Machine) -> None:
        url = f"http://{machine.host}:4151/pub?topic={TOPIC}"
        while True:
            self.attempted += 1
            number, sent = self.attempted, time.monotonic()
            try:
                answer = await request("POST", url, ASK_S, body=b"%d" % number, connect_timeout=1.0)
            except HttpError:
                answer = None
            if answer is not None and answer.status == 200:
                self.oks.append(Ok(sent, time.monotonic(), machine.number, number))
            await asyncio.sleep(PAUSE_S)

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Unattended:
    """The machines, and what was found."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.network = Namespaces()
        self.rng = rng
        self.hosts = [self.network.host(number) for number in range(3)]
        self.machines = [Machine(self.network, number, folder, self.hosts) for number in range(3)]
        self.faults: list[str] = []
        self.without_s: list[float] = []
        self.kinds: Counter[str] = Counter()
        self.ever: set[int] = set()

    async def status(self, machine: Machine) -> dict[str, Any]:
        """A node's /replication; empty without an answer."""
        try:
            answer = await request(
                "GET", f"http://{machine.host}:4151/replication", ASK_S, connect_timeout=1.0
            )
            return dict(json.loads(answer.body))
        except (HttpError, ValueError):
            return {}

    async def until_in_order(self) -> Machine:
        """Wait until one node is primary, and the lease lists the two others; the primary."""
        end, said = time.monotonic() + WAIT_S, []
        while time.monotonic() < end:
            said = [await self.status(each) for each in self.machines]
            for machine, status in zip(self.machines, said, strict=True):
                if status.get("role") == "fenced" and status.get("only_here"):
                    await asyncio.to_thread(machine.follow, status["primary"].rpartition(":")[0])
                members = status.get("lease", {}).get("members", [])
                has_all = all(each.get("has_all") for each in status.get("followers", []))
                if status.get("role") == "primary" and len(members) == 2 and has_all:
                    await asyncio.sleep(2 * SECONDS / 12)  # the listing follows the waiting
                    return machine
            await asyncio.sleep(0.2)
        logs = [f"{each.number} {name}: {each.log(name)}" for each in self.machines
                for name in ("nsqd", "lease")]  # fmt: skip
        raise TimeoutError(f"not in order: {said}\n" + "\n".join(logs))

    async def round(self, kind: str) -> None:
        """One fault of the primary, until somebody says OK again and all is mended."""
        primary = await self.until_in_order()
        publishers = Publishers(self.machines)
        try:
            await asyncio.sleep(self.rng.uniform(0.5, 1.5))
            begun = time.monotonic()
            await self._strike(kind, primary)
            struck = time.monotonic()
            away_s = self.rng.uniform(1.5, 3) * SECONDS
            if kind == "parted":  # nobody has a majority before it is mended
                await asyncio.sleep(away_s)
                await self.network.mend()
            await self._until_ok(publishers, struck)
            left_s = struck + away_s - time.monotonic()
            await asyncio.sleep(max(0.0, left_s) if kind != "killed" else 0)
            await self._mend(primary)
            await asyncio.sleep(1)
        finally:
            await publishers.stop()
        primary = await self.until_in_order()
        self._judge(kind, publishers.oks, begun, struck)
        await asyncio.to_thread(self._find_all, primary, publishers)
        self.kinds[kind] += 1

    async def _strike(self, kind: str, primary: Machine) -> None:
        others = [each for each in self.machines if each is not primary]
        match kind:
            case "killed":
                primary.kill("nsqd")
                asyncio.get_running_loop().call_later(
                    self.rng.uniform(0.5, 2 * SECONDS), primary.start, "nsqd"
                )
            case "killed for long":
                primary.kill("nsqd")
            case "cut":
                await self.network.cut(primary.number)
            case "parted":
                await self.network.part()
            case "stopped":
                primary.signal("nsqd", signal.SIGSTOP)
            case "lease program stopped":
                primary.signal("lease", signal.SIGSTOP)
            case "store stopped":
                primary.kill("etcd", "nsqd")
            case "copy behind":
                behind = self.rng.choice(others)
                behind.signal("nsqd", signal.SIGSTOP)
                await asyncio.sleep(self.rng.uniform(4, 8))
                primary.kill("nsqd")
                behind.signal("nsqd", signal.SIGCONT)

    async def _mend(self, primary: Machine) -> None:
        await self.network.mend()
        for name in ("nsqd", "lease"):
            with suppress(ProcessLookupError, KeyError):
                primary.signal(name, signal.SIGCONT)
        for each in self.machines:
            each.start()

    async def _until_ok(self, publishers: Publishers, struck: float) -> None:
        end = time.monotonic() + WAIT_S
        while not any(each.sent > struck for each in publishers.oks[-200:]):
            if time.monotonic() > end:
                raise TimeoutError("nobody says OK any more")
            await asyncio.sleep(0.05)

    def _judge(self, kind: str, oks: list[Ok], begun: float, struck: float) -> None:
        """See that nodes did not say OK by turns, and how long none did."""
        turns: list[int] = []
        for each in sorted(oks, key=lambda ok: ok.received):
            if not turns or turns[-1] != each.node:
                turns.append(each.node)
        if len(set(turns)) != len(turns):
            self.faults.append(f"{kind}: nodes said OK by turns: {turns}")
        last = max((each.received for each in oks if each.received <= struck), default=begun)
        first = min(each.received for each in oks if each.sent > struck)
        self.without_s.append(first - last)
        self.ever.update(each.number for each in oks)

    def _find_all(self, primary: Machine, publishers: Publishers) -> None:
        """See that all that was ever acknowledged is in the primary's log."""
        found: set[int] = set()
        with LogClient(f"{primary.host}:4151") as log:
            end, at = log.offsets(TOPIC).queues[0].end, 0
            while at < end:
                for batch in log.fetch(TOPIC, at).batches():
                    for offset in range(max(at, batch.first_offset), batch.next_offset):
                        found.add(int(bytes(batch.slice(offset, offset + 1))[_BODY_AT:]))
                    at = max(at, batch.next_offset)
        missing = {each.number for each in publishers.oks} - found
        if missing:
            self.faults.append(f"acknowledged and lost: {sorted(missing)[:10]}, {len(missing)}")

    @property
    def figures(self) -> str:
        """The times without a primary."""
        times = sorted(self.without_s)
        if not times:
            return "nothing measured"
        half, most = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99))
        return (f"{len(self.ever):,} acknowledged; without an OK p50 {half:.1f} s, "
                f"p99 {most:.1f} s, most {times[-1]:.1f} s; "
                f"{sum(each.put_aside for each in self.machines)} old primaries had something "
                "that was never acknowledged")  # fmt: skip


async def unattended(rounds: int, rng: random.Random, kinds: Sequence[str] = ()) -> Result:
    """Faults of the primary of three machines, by turns of all ``kinds``."""
    need("etcd", "etcd-server")
    with tempfile.TemporaryDirectory(prefix="penstock-unattended-") as folder:
        run = Unattended(rng, Path(folder))
        try:
            places: Any = [_Place() for _ in run.machines]
            await run.network.open(places)
            for each in run.machines:
                each.start("etcd", "nsqd", "lease")
            waiting: list[str] = []
            for _ in progress(rounds, lambda: run.figures):
                waiting = waiting or rng.sample([*(kinds or KINDS)], len(kinds or KINDS))
                await run.round(waiting.pop())
        except Exception as error:
            run.faults += explained(error)
            run.faults.append(str(error)[-4000:])
        finally:
            for each in run.machines:
                each.kill()
            await run.network.close()
    counts = ", ".join(f"{count} {name}" for name, count in sorted(run.kinds.items()))
    return Result(f"three machines and nobody, lease of {SECONDS} s",
                  f"{run.kinds.total()} rounds: {counts}", run.figures, run.faults)  # fmt: skip


class _Place:
    """A node as the network sees it: it is told its addresses."""

    tcp = http = ""
