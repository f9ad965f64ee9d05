"""Third-party RocketMQ clients work with our broker and name server unchanged.

The C++ client is that of the extra `interop`; ali-ons is installed by npm into the virtual
environment when the tests first run.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from . import npm
from . import rocketmq_flow as flow
from .rocketmq_play import Client, constants, play_flows

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
ALI_ONS = "ali-ons@3.12.0"
CPP_MODES = (
    "broker", "namesrv", "retry", "send", "orderly", "filter", "pull", "share", "resume",
    "create",
)  # fmt: skip
JS_MODES = (
    "broker", "namesrv", "retry", "send", "filter", "sql", "share", "resume", "refused",
)  # fmt: skip
FLOWS = [("cpp", mode) for mode in CPP_MODES] + [("ali-ons", mode) for mode in JS_MODES]


def missing(client: str) -> str | None:
    """Why a client cannot be run here; None when it can."""
    if client == "cpp":
        fits = (sys.platform, platform.machine()) == ("linux", "x86_64")
        return None if fits else "the C++ client is built for Linux on x86-64 only"
    both = shutil.which("node") and shutil.which("npm")
    return None if both else "node and npm are not on PATH"


def client_of(name: str, home: Path) -> Client:
    """A client; ali-ons is installed at the first time."""
    if name == "cpp":
        command = [sys.executable, str(HERE / "run_rocketmq_cpp.py")]
        return Client(name, command, env={"HOME": str(home)})  # where it writes its logs
    env = {"NODE_PATH": str(npm.modules_of(ALI_ONS)), "FLOW": json.dumps(constants())}
    return Client(name, ["node", str(HERE / "run_ali_ons.cjs")], env)


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """All flows that are asked for and can be run here, already run."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked: list[Any] = [item.callspec.params for item in items if item.function is test_flow]
    flows = [(each["client"], each["mode"]) for each in asked if not missing(each["client"])]
    home = tmp_path_factory.mktemp("rocketmq")
    clients = {name: client_of(name, home) for name in {client for client, _ in flows}}
    return play_flows([(clients[client], mode) for client, mode in flows], home)


@pytest.mark.parametrize(("client", "mode"), FLOWS)
def test_flow(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    reason = missing(client)
    if reason is not None:
        pytest.skip(reason)
    flow.check(client, mode, outcomes[client, mode])
