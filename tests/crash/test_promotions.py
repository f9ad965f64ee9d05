"""A primary is killed under load, its follower promoted: what is lost is what the lag said, and
nothing where an OK waits for the copy.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, run_nsqd
from penstock.testing.ledger import Ledger
from tests.copies import WAIT_S_MAX, ask, until
from tools.loads.load import Load, NotCopiedError

ROUNDS = int(os.environ.get("PENSTOCK_PROMOTIONS", "1"))
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


class TimedLedger(Ledger):
    """A ledger that knows when each OK came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[int, float] = {}

    def acknowledge(self, numbers: Iterable[int]) -> None:
        super().acknowledge(numbers := list(numbers))
        self.times |= dict.fromkeys(numbers, time.monotonic())


class PatientLoad(Load):
    """A load whose producers begin anew where the follower was kept from asking for seconds."""

    def clients(self, daemon: Daemon) -> list[Coroutine[Any, Any, None]]:
        kinds = [self.multi_publish, self.multi_publish, self.publish, self.publish]
        kinds += [self.deferred_publish, self.consume, self.consume]
        return [self._until_closed(self._again(kind, daemon)) for kind in kinds]

    async def _again(
        self, kind: Callable[[Daemon], Coroutine[Any, Any, None]], daemon: Daemon
    ) -> None:
        while True:
            with suppress(NotCopiedError):
                await kind(daemon)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("acked", [0, 1])
@pytest.mark.parametrize("level", ["write", "fsync"])
async def test_a_promoted_follower_loses_at_most_its_lag_and_the_rest_is_put_aside(
    level: str, acked: int, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = TimedLedger()
    load = PatientLoad(ledger, random.Random(SEED + number))
    flags = (f"--durability={level}", "--max-bytes-per-file=65536")
    wait = f"--replicas-acked={acked}"
    any_lag = "--promote-max-lag=1h"  # what it is, is held against what is lost
    with run_nsqd(*flags, wait) as old, run_nsqd(f"--follow={old.http}", any_lag, *flags) as new:
        await asyncio.to_thread(until, new, whole=True)
        if acked:
            await asyncio.to_thread(until, old, replicas_in_force=acked)
        await load.run(old, 0.7)
        status, promoted = await asyncio.to_thread(ask, new, "POST", "/replication/promote")
        assert (status, promoted["epoch"]) == (200, 2), promoted
        assert not promoted["old_primary_told"]
        await asyncio.to_thread(until, new, role="primary", epoch=2)
        await drain(new, load)
        report, lost = ledger.report(), ledger.lost(10**6)
        with capsys.disabled():
            print(f"\nlevel {level}, seed {SEED + number}: {report}; lag {promoted}")
        assert report.invented == 0
        assert not (acked and lost), "acknowledged, and not copied"
        # It ends when the primary was found gone, which was not before its last OK.
        last = max(ledger.times.values())
        late = [ledger.times[each] - (last - promoted["lag_seconds"]) for each in lost]
        assert min(late, default=0) >= 0, "acknowledged when the copy was whole"
        await asyncio.to_thread(comes_back, old, new, report.lost)
        await find_aside(old, load, lost)
    assert ledger.lost() == []


async def drain(node: Daemon, load: Load) -> None:
    """Finish all that a node has; what it has not would be waited for in vain."""
    draining = asyncio.create_task(drain_on(node, load))
    try:
        await asyncio.to_thread(until_finished, node, load.topic.decode())
    finally:
        draining.cancel()
        with suppress(asyncio.CancelledError):
            await draining


async def drain_on(node: Daemon, load: Load) -> None:
    """Finish what comes until the end of the task. A drain ends by itself after a silence, in which
    a busy node may owe what was never acknowledged.
    """
    while True:
        await load.drain(node)


def until_finished(node: Daemon, topic: str) -> None:
    for _ in range(WAIT_S_MAX * 20):
        if not owes(node, topic):
            return
        time.sleep(0.05)
    raise AssertionError(f"messages of {topic} are not finished")


def owes(node: Daemon, topic: str) -> bool:
    """True while messages of the topic are to be finished."""
    topics = ask(node, "GET", f"/stats?format=json&topic={topic}")[1]["topics"]
    return any(
        channel["depth"] + channel["in_flight_count"] + channel["deferred_count"]
        for each in topics
        for channel in each["channels"]
    )


def comes_back(old: Daemon, new: Daemon, lost: int) -> None:
    """The old primary takes nothing more, says what only it has, and becomes a copy."""
    old.start()
    until(old, role="fenced")
    assert ask(old, "POST", "/pub?topic=kill", b"x")[0] == 503
    fenced = until(old, role="fenced", fenced_epoch=2)
    for _ in range(WAIT_S_MAX * 20):
        if "messages that only" in old.log() or "all its messages" in old.log():
            break
        time.sleep(0.05)
    fenced = until(old, role="fenced")
    assert sum(fenced["only_here"].values()) >= lost
    old.flags.append(f"--follow={new.http}")
    old.restart()
    copied = until(old, role="follower", whole=True, epoch=2)
    if lost:
        assert copied["put_aside"] == fenced["only_here"]


async def find_aside(old: Daemon, load: Load, lost: list[int]) -> None:
    """What was put aside is a data path: a node over it has what the new primary has not."""
    for path in sorted((Path(old.data_path) / "aside").glob("*")) if lost else ():
        with run_nsqd(data_path=path) as aside:
            await drain(aside, load)
