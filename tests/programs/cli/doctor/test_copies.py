"""Each fault of a primary and its copies is found, and a healthy pair has none."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.doctor import cluster
from penstock.cli.doctor.report import Report
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.testing.daemons import Daemon, run_nsqd
from tests.copies import ask, publish, until, until_copied
from tests.programs.cli.doctor.cluster import codes, examined
from tests.programs.cluster.conftest import FakeDaemon, StartFake, fake

__all__ = ["fake"]


@pytest.fixture
def pair() -> Iterator[tuple[Daemon, Daemon]]:
    """A primary that goes on without its follower, and that."""
    with (
        run_nsqd("--replicas-acked=1", "--replicas-missing=go-on") as primary,
        run_nsqd(f"--follow={primary.http}") as follower,
    ):
        until(primary, replicas_in_force=1)
        until(follower, whole=True, error=None)
        yield primary, follower


async def settled(wanted: list[str], *addresses: str) -> Report:
    """The report that finds this: a copy may be behind for a moment, or a node late to answer."""
    end = SYSTEM_CLOCK.monotonic_ns() + 120 * SECOND
    while codes(report := await examined(*addresses)) != wanted:
        assert SYSTEM_CLOCK.monotonic_ns() < end, report.findings
    return report


async def test_the_life_of_a_pair(
    pair: tuple[Daemon, Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = pair
    monkeypatch.setattr(cluster, "TIMEOUT_S", 1.0)  # the one that is stopped does not answer
    await settled([], old.http, new.http)
    os.kill(new.pid, signal.SIGSTOP)
    until(old, replicas_in_force=0)
    report = await settled(["without-copies"], old.http)
    assert "are acknowledged without them" in report.findings[0].what
    os.kill(new.pid, signal.SIGCONT)
    until(old, replicas_in_force=1)
    publish(old, "t", "1")
    until_copied(old, new, "t")
    old.kill()
    until(new, error=f"{old.http} cannot be reached: connection refused")
    report = await settled(["no-primary"], new.http)
    [found] = report.findings
    assert f"its primary {old.http} does not answer; it was whole" in found.what
    assert f"penstock promote {new.http}; what" in found.remedy
    assert ask(new, "POST", "/replication/promote")[0] == 200
    until(new, role="primary")
    old.start()
    until(old, role="fenced")
    report = await settled(["no-channel", "fenced"], old.http, new.http)
    assert f"{new.http} is primary in epoch 2" in report.findings[-1].what
    old.flags.append(f"--follow={new.http}")
    old.restart()
    until(old, role="follower", whole=True)
    await settled(["no-channel"], old.http, new.http)


def says(node: FakeDaemon, **figures: Any) -> FakeDaemon:
    """A node that says this at /replication."""
    node.answers = {
        "/info": node.told(), "/stats": {"topics": []}, "/ping": {},
        "/replication": {"epoch": 1, "history": "h", **figures},
    }  # fmt: skip
    return node


async def test_roles_that_do_not_fit_together(fake: StartFake) -> None:
    a, b, c = [await fake() for _ in range(3)]

    async def found(*asked: FakeDaemon) -> list[tuple[str, str, str]]:
        report = await examined(*(each.address for each in asked))
        return [(each.code, each.what, each.remedy) for each in report.findings
                if each.code not in ("unhealthy", "unreachable")]  # fmt: skip

    says(a, role="primary", followers=[{"address": b.address}])
    following = {"role": "follower", "primary": a.address, "error": None}
    says(b, **following, lag_seconds=60.5, lag_messages=7000, was_whole=False)
    [(code, what, _)] = await found(b)
    assert (code, "7,000 messages" in what, "60.5 s ago" in what) == ("copy-behind", True, True)

    says(b, **following | {"error": "disk full"}, lag_seconds=1, put_aside={"t": 3, "u": 5})
    failed, aside = await found(b)
    assert (failed[0], failed[1]) == ("not-following", "disk full; it was whole 1 s ago")
    assert (aside[0], aside[1].endswith("5 of u, 3 of t")) == ("put-aside", True)

    says(b, **following, whole=True, lag_seconds=0)
    says(c, role="follower", primary=b.address, error="refuses: FOLLOWER", history="")
    [(code, what, remedy)] = await found(c)
    assert (code, remedy) == ("follows-follower", f"Start it with --follow={a.address}.")
    says(b, role="follower", primary=c.address, error="refuses: FOLLOWER")
    assert [each[2] for each in await found(b)] == [f"penstock promote {b.address}, or the other."]

    says(b, role="fenced", primary=a.address, fenced_epoch=2, only_here={"t": 4})
    [(code, what, _)] = await found(b)
    assert (code, what.endswith("only it has: 4 of t")) == ("fenced", True)
    [(code, what, remedy)] = await found(c)
    assert (code, remedy) == ("follows-fenced", f"Start it with --follow={a.address}.")

    says(b, role="primary", followers=[{"address": c.address}])
    says(c, role="primary", followers=[])
    [(code, what, remedy)] = await found(a, b)
    assert code == "two-primaries"
    assert all(f"{each.address} (epoch 1)" in what for each in (a, b, c)), "one is only named"
    assert "Two followers were promoted at once" in remedy
    says(c, role="primary", epoch=2, primary=b.address)
    [(code, what, remedy)] = await found(c)
    assert (code, f"{c.address} tells the one before it" in remedy) == ("two-primaries", True)

    says(a, role="primary", replicas_acked=2, replicas_in_force=0, replicas_missing="refuse")
    [(code, what, _)] = await found(a)
    assert (code, "publishes are refused" in what) == ("without-copies", True)


async def test_a_follower_that_is_not_whole_and_has_lost_its_primary(fake: StartFake) -> None:
    for messages, lost in ((8, "at least 8 messages"), (0, "messages, how many is not known")):
        b = says(await fake(), role="follower", primary="127.0.0.1:1", error="gone",
                 lag_messages=messages)  # fmt: skip
        [found] = [e for e in (await examined(b.address)).findings if e.code == "no-primary"]
        assert f"penstock promote {b.address} --force loses {lost}. A backup" in found.remedy
