"""``penstock demo --stay`` over real daemons, from where Spark has ended to Ctrl-C.

tests/spark/programs/test_demo.py has all that is before.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import demo
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.nodes import Ports

CARRIERS = [{"carrier": "UA", "events": 2, "distinct": 2, "first": 0, "last": 1, "delay": 2.0}]


class Played(demo._Demo):
    """A demo that has come to its proof: its daemons run, all its other children have ended."""

    admin = ""

    def play(self) -> list[dict[str, Any]]:
        daemons = Daemons(self._folder, Ports.free(), self._board)
        self._admin = Played.admin = daemons.admin
        daemons.start(self.children.all)
        daemons.create_topic("flights")
        self.published.done = self.consumed.done = 2
        return CARRIERS


def test_the_services_stay_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_Demo", Played)
    topics = []

    def look_and_interrupt(_: float) -> None:
        with urllib.request.urlopen(f"{Played.admin}api/topics", timeout=30) as answer:
            topics.extend(json.load(answer)["topics"])
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "time", SimpleNamespace(sleep=look_and_interrupt))
    demo.run_demo(0, 2, keep=True, stay=True)
    said = capsys.readouterr().out
    assert topics == ["flights"]
    proven, rest = said.split(" until Ctrl-C\n")
    assert "Proven: 2 rows in Parquet = 2 events published" in proven
    assert re.search(r"\nnsqadmin is at http://127\.0\.0\.1:\d+/$", proven)
    assert ": stopped" not in proven
    assert rest.startswith("stopping the services\n")
    assert "Everything of this run is in run/demo-" in rest
    assert rest.splitlines()[-1].startswith("Next: publish messages of your own")
