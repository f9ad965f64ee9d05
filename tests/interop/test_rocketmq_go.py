"""RocketMQ's own Go client with our broker and name server.

Run when `PENSTOCK_ROCKETMQ_GO` is set: it takes a minute and a half, and to build the program Go
may have to fetch modules.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.own_network import network_outside

from . import rocketmq_flow as flow
from .rocketmq_play import Client, constants_env, play_flows

SOURCE = Path(__file__).parent / "go"
VARIABLE = "PENSTOCK_ROCKETMQ_GO"
MODES = (
    "retry", "broker", "namesrv", "send", "orderly", "filter", "sql", "share", "broadcast",
    "resume", "transaction",
)  # fmt: skip


def missing() -> str | None:
    """Why the tests cannot be run here; None when they can."""
    if not os.environ.get(VARIABLE):
        return f"{VARIABLE} is not set"
    return None if shutil.which("go") else "go is not on PATH"


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """All flows that are asked for, already run."""
    if missing():
        return {}
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked: list[Any] = [
        item.callspec.params["mode"] for item in items if item.function is test_flow
    ]
    home = tmp_path_factory.mktemp("rocketmq-go")
    program = str(home / "flows")
    with network_outside():
        built = subprocess.run(
            ["go", "build", "-o", program, "."], cwd=SOURCE, capture_output=True, text=True
        )
    assert built.returncode == 0, built.stderr
    client = Client("go", [program], constants_env())
    return play_flows([(client, mode) for mode in asked], home)


@pytest.mark.parametrize("mode", MODES)
def test_flow(mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    flow.check("go", mode, outcomes["go", mode])
