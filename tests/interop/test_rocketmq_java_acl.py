"""RocketMQ's own Java client with its ACL hook: an ordinary account can do all that clients do.

The account is not an administrator, and has PUB and SUB of every topic and SUB of every group.
`test_rocketmq_java` says where the jars come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.harness.rocketmq.java import missing

from . import rocketmq_flow as flow
from .rocketmq_play import Client, play_flows
from .test_rocketmq_java import FLOWS as ALL_FLOWS
from .test_rocketmq_java import client_of, program_of

RULES = """
accounts:
- {accessKey: administrator, secretKey: 12345678, admin: true}
- {accessKey: ordinary, secretKey: 87654321, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""
NOT_ORDINARY = ("broker", "namesrv", "create")
"""Restarts, which need other servers, and the making of topics, which needs an administrator."""
FLOWS = [(client, mode) for client, mode in ALL_FLOWS if mode not in NOT_ORDINARY]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """The outcomes of all selected flows, already run."""
    if missing():
        return {}  # and the tests are skipped
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = [item.callspec.params for item in items if item.function is test_flow]
    home = tmp_path_factory.mktemp("rocketmq-java-acl")
    (home / "plain_acl.yml").write_text(RULES)
    flows = [(str(each["client"]), str(each["mode"])) for each in asked]
    programs = {(client, program_of(mode)) for client, mode in flows}
    clients = {key: _signing(*key, home) for key in programs}
    wanted = [(clients[client, program_of(mode)], mode) for client, mode in flows]
    account = ("administrator", "12345678")
    return play_flows(wanted, home, account, aclEnable="true", aclDirectory=home)


def _signing(name: str, program: str, home: Path) -> Client:
    client = client_of(name, program, home)
    keys = {"FLOW_ACCESS_KEY": "ordinary", "FLOW_SECRET_KEY": "87654321"}
    return Client(client.name, client.command, {**client.env, **keys})


@pytest.mark.parametrize(("client", "mode"), FLOWS)
def test_flow(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    flow.check("java", mode, outcomes[client, mode])
