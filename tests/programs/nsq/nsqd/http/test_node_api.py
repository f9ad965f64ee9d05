"""The machine under a node, over HTTP."""

from __future__ import annotations

import pytest

from penstock import __version__
from penstock.core.units import SECOND
from penstock.storage.files.disk_space import DiskSpace
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Start


async def test_clock_disk_and_health(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    node = await start(clock=clock)
    monkeypatch.setattr(DiskSpace, "of", lambda _: DiskSpace(100, 60, 30))
    told = await node.json("/node")
    assert (
        told
        | {
            "penstock_version": __version__,
            "wall_ns": clock.wall_ns(),
            "health": "OK",
            "disk": {"total": 100, "used": 60, "free": 30},
            "start_time": clock.wall_ns() // SECOND,
            "missing": [],
        }
        == told
    )
    monkeypatch.setattr(DiskSpace, "of", lambda _: None)
    assert (await node.json("/node"))["disk"] is None
