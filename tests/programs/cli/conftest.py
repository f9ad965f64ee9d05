"""What these tests share: the fixture of commands, and time for nodes to answer."""

from __future__ import annotations

import pytest

from penstock.cli import promote
from penstock.cli.doctor import cluster, name_servers
from penstock.cli.doctor import examined_nodes as doctor_nodes
from penstock.cli.live import children, daemons
from penstock.cli.replay import replay_command as replay
from penstock.cli.shared.node_selection import NodeSelection
from penstock.cli.top import top_command as top
from tests.unit.cli.conftest import command

__all__ = ["command"]

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process wait for an answer as long as a busy machine takes for it."""
    for module in (cluster, name_servers, replay, top):
        monkeypatch.setattr(module, "TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(doctor_nodes, "DIAL_S", PATIENCE_S)
    monkeypatch.setattr(promote, "ASK_S", PATIENCE_S)
    monkeypatch.setattr(NodeSelection.http, "__defaults__", (PATIENCE_S,))
    monkeypatch.setattr(daemons, "_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(daemons, "_REGISTER_TRIES", int(PATIENCE_S / daemons._POLL_S))
    monkeypatch.setattr(children.wait_for_ping, "__defaults__", (2 * PATIENCE_S,))
