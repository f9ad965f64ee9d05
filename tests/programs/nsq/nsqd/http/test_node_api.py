"""The machine under a node, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import __version__
from penstock.core.units import SECOND
from penstock.storage.files.disk_space import DiskSpace
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start

STATUS = {"id": "6a1d", "name": "counts", "state": "running", "rows_read": 70, "sql": "select 1",
          "groups": [["t", "g"]], "lag": 9}  # fmt: skip


async def tell(nsqd: Running, **changes: Any) -> tuple[int, bytes]:
    return await nsqd.post("/pipelines", json.dumps(STATUS | changes).encode())


async def told(nsqd: Running) -> Any:
    return (await nsqd.json("/pipelines"))["pipelines"]


async def test_what_is_told_is_shown(filled: Running) -> None:
    assert await told(filled) == []
    assert await tell(filled, more="ignored") == (200, b"{}")
    (found,) = await told(filled)
    assert {key: found[key] for key in STATUS} == STATUS
    assert (found["lag_is_here"], found["error_at"]) == (False, 0)
    assert await filled.post("/log/commit?topic=t&group=g", b'{"offsets":{"0":40}}')
    (found,) = await told(filled)
    assert (found["lag"], found["lag_is_here"]) == (60, True)


async def test_bodies_that_are_refused(filled: Running) -> None:
    for changes in ({"state": "dead"}, {"id": 5}, {"rows_read": -1}, {"name": "a\x00b"}):
        assert await tell(filled, **changes) == (400, b'{"message":"INVALID_BODY"}')
    assert (await filled.post("/pipelines", b"{"))[0] == 400
    assert (await tell(filled, more="x" * 200_000))[0] == 413
    assert await told(filled) == []


async def test_metrics(start: Start) -> None:
    nsqd = await start(metrics=True)
    page = (await nsqd.get("/metrics"))[1].decode()
    assert "nsqd_pipeline" not in page
    await tell(nsqd)
    page = (await nsqd.get("/metrics"))[1].decode()
    assert 'nsqd_pipeline_rows_read_total{pipeline="counts",id="6a1d"} 70\n' in page


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
