"""Commands on access rules, through a broker that has some."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.broker.conftest import fake_node
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient
from tools.harness.rocketmq.signing_client import SigningClient

from ..asking import send_fields

RULES = """
accounts:
- accessKey: administrator
  secretKey: admin-secret
  admin: true
- accessKey: RocketMQ
  secretKey: 12345678
  topicPerms: [TopicA=PUB]
"""


@pytest.fixture
def guarded(
    loop_thread: LoopThread, tmp_path: Path, settings: BrokerSettings
) -> Iterator[RocketBroker]:
    """A broker with access rules."""
    settings.acl_enable = True
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "plain_acl.yml").write_text(RULES)
    host = fake_node(tmp_path)
    broker = loop_thread.run(RocketBroker.start(settings, host))
    yield broker
    loop_thread.run(broker.close())
    host.broker.close()


@pytest.fixture
def admin(guarded: RocketBroker) -> Iterator[SigningClient]:
    with closing(SigningClient(guarded.port, "administrator", "admin-secret")) as client:
        yield client


@pytest.fixture
def user(guarded: RocketBroker) -> Iterator[SigningClient]:
    with closing(SigningClient(guarded.port, "RocketMQ", "12345678")) as client:
        yield client


@pytest.fixture
def stranger(guarded: RocketBroker) -> Iterator[RawClient]:
    with closing(RawClient(guarded.port)) as client:
        yield client


def may_send(client: SigningClient, topic: str) -> str | None:
    """None if it may; else why not."""
    answer = client.ask(Code.SEND_MESSAGE_V2, b"body", **send_fields(topic))
    assert answer.code in (0, 16)
    return answer.remark


def test_rules_hold_from_the_first_request_on(user: SigningClient, stranger: RawClient) -> None:
    assert may_send(user, "TopicA") is None
    assert may_send(user, "TopicB") == "No default permission for topic:TopicB"
    answer = stranger.ask(Code.GET_BROKER_CONFIG)
    assert (answer.code, answer.remark) == (16, "No accessKey is configured")
    assert stranger.ask(424_242).code == 16


def test_accounts_are_changed_and_count_at_once(
    admin: SigningClient, user: SigningClient, tmp_path: Path
) -> None:
    answer = admin.ask(
        Code.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="RocketMQ", secretKey="12345678",
        topicPerms="TopicB=PUB, TopicC=SUB", admin="false", whiteRemoteAddress="",
    )  # fmt: skip
    assert (answer.code, answer.remark) == (0, None)
    assert may_send(user, "TopicB") is None
    assert may_send(user, "TopicA") is not None
    assert admin.ask(Code.DELETE_ACL_CONFIG, accessKey="RocketMQ").code == 0
    assert may_send(user, "TopicB") == "No acl config for RocketMQ"
    assert "RocketMQ" not in (tmp_path / "config" / "plain_acl.yml").read_text()
    answer = admin.ask(Code.DELETE_ACL_CONFIG, accessKey="RocketMQ")
    words = "The accesskey[RocketMQ] corresponding to accessConfig has been deleted failed."
    assert (answer.code, answer.remark) == (210, words)


def test_trusted_addresses_are_changed_and_count_at_once(
    admin: SigningClient, stranger: RawClient
) -> None:
    answer = admin.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="127.0.0.1,::1")
    assert answer.code == 0
    assert stranger.ask(Code.GET_BROKER_CONFIG).code == 0


@pytest.mark.parametrize(
    ("asked", "fields", "code", "words"),
    [
        (Code.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": "short", "secretKey": "12345678"}, 209,
         "at least 7 characters"),
        (Code.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": "another"}, 209, ""),
        (Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, {"globalWhiteAddrs": "nowhere"}, 211,
         "'nowhere' is not an address"),
        (Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
         {"globalWhiteAddrs": "::1", "aclFileFullPath": "/etc/hosts"}, 211,
         "/etc/hosts is not a file of access rules"),
        (Code.DELETE_ACL_CONFIG, {}, 1, ""),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    admin: SigningClient, asked: int, fields: dict[str, Any], code: int, words: str
) -> None:
    answer = admin.ask(asked, **fields)
    assert answer.code == code
    assert words in (answer.remark or "")


def test_versions_are_told(guarded: RocketBroker, admin: SigningClient, tmp_path: Path) -> None:
    admin.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="10.0.0.1")
    answer = admin.ask(Code.GET_BROKER_CLUSTER_ACL_INFO)
    assert answer.code == 0
    ext = answer.ext or {}
    version = json.loads(ext["version"])
    assert version["counter"] == 1
    path = str(tmp_path / "config" / "plain_acl.yml")
    assert json.loads(ext["allAclFileVersion"]) == {path: version}
    assert (ext["brokerName"], ext["clusterName"]) == ("broker-a", "DefaultCluster")
    assert ext["brokerAddr"] == f"127.0.0.1:{guarded.port}"


def test_accounts_are_shown_without_secrets(admin: SigningClient) -> None:
    admin.ask(
        Code.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="another1", secretKey="secret-of-another",
        topicPerms="a=PUB,b=DENY", defaultGroupPerm="SUB",
    )  # fmt: skip
    admin.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="10.0.0.1")
    answer = admin.ask(Code.GET_BROKER_CLUSTER_ACL_CONFIG)
    assert b"ecret" not in answer.body
    found = json.loads(answer.body)
    assert found["globalWhiteAddrs"] == ["10.0.0.1"]
    by_key = {each["accessKey"]: each for each in found["plainAccessConfigs"]}
    assert by_key["another1"] == {
        "accessKey": "another1", "admin": False, "defaultGroupPerm": "SUB",
        "topicPerms": ["a=PUB", "b=DENY"],
    }  # fmt: skip
    assert any(each["admin"] for each in by_key.values())


def test_a_broker_without_rules_says_so(client: RawClient) -> None:
    for code, failure in ((50, 209), (51, 210), (52, 1), (53, 211), (54, 1)):
        answer = client.ask(code, accessKey="RocketMQ")
        assert answer.code == failure
        assert answer.remark == "there are no access rules: aclEnable is false"
