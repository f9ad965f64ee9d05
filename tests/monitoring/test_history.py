"""nsqadmin's charts of 7 and 30 days, of a real Prometheus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Nsqadmin, run_nsqadmin, run_nsqd
from tests.metrics_pages import ask, until
from tests.unit.cli.nodes_at_work import make, publish

from .prometheus import run_prometheus

pytestmark = pytest.mark.nightly


def history(admin: Nsqadmin, query: str) -> dict[str, Any]:
    status, body = ask(admin.http, f"/api/history?{query}")
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def test_figures_of_every_key(tmp_path: Path) -> None:
    with run_nsqd("--metrics") as nsqd:
        make(nsqd, "orders", "bill")
        publish(nsqd, "orders", [b"x"] * 7)
        jobs = {"nsqd": [nsqd.http]}
        with run_prometheus(tmp_path, jobs, "groups: []\n") as prometheus:
            until(lambda: prometheus.value("sum(nsqd_channel_depth)") == 7)
            flags = (f"--nsqd-http-address={nsqd.http}",
                     f"--prometheus-url=http://{prometheus.address}")  # fmt: skip
            with run_nsqadmin(*flags) as admin:
                until(lambda: history(admin, "range=7d")["waiting"][-1] == 7)
                for key in ("topic=orders", "topic=orders&channel=bill", f"node={nsqd.http}"):
                    found = history(admin, f"{key}&range=30d")
                    assert found["waiting"][-1] == 7, key
                    assert found["in_flight"][-1] == 0, key
                    assert found["times"] == sorted(found["times"])
                    assert found["depth"][0] is None, key
