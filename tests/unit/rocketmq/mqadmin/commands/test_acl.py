from __future__ import annotations

import json

from penstock.rocketmq.mqadmin.commands import acl
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer, in_json, printed

ACCOUNT = {"accessKey": "somebody", "secretKey": "hidden", "admin": False, "topicPerms": ["a=PUB"]}


def test_an_account_is_made_and_its_secret_not_shown() -> None:
    admin = FakeAdmin({Code.UPDATE_AND_CREATE_ACL_CONFIG: answer()})
    text = printed(
        acl.update_acl_config, admin, clusterName="C", accessKey="somebody", secretKey="hidden"
    )
    assert f"create or update plain access config to {BROKER} success.\n" in text
    assert "hidden" not in text
    fields = admin.fields(Code.UPDATE_AND_CREATE_ACL_CONFIG)[0]
    assert fields == {"accessKey": "somebody", "secretKey": "hidden", "admin": "false"}


def test_an_account_is_deleted_and_addresses_are_trusted() -> None:
    admin = FakeAdmin(
        {Code.DELETE_ACL_CONFIG: answer(), Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: answer()}
    )
    text = printed(acl.delete_acl_config, admin, brokerAddr=BROKER, accessKey="somebody")
    assert text.endswith("account's accesskey is:somebody")
    printed(
        acl.update_global_white_addr, admin, brokerAddr=BROKER,
        globalWhiteRemoteAddresses="10.0.0.1", aclFileFullPath="/f",
    )  # fmt: skip
    assert admin.asked[-1][2] == {"globalWhiteAddrs": "10.0.0.1", "aclFileFullPath": "/f"}


def test_versions() -> None:
    versions = json.dumps({"/f": {"counter": 3, "timestamp": 7}})
    found = answer(clusterName="C", brokerName="a", brokerAddr=BROKER, allAclFileVersion=versions)
    admin = FakeAdmin({Code.GET_BROKER_CLUSTER_ACL_INFO: found})
    row = in_json(acl.cluster_acl_config_version, admin, clusterName="C")["versions"][0]
    assert (row["file"], row["version"], row["updated"]) == ("/f", "3", 7)
    text = printed(acl.cluster_acl_config_version, admin, brokerAddr=BROKER)
    assert text.endswith("get broker's plain access config version success.\n")


def test_accounts_of_a_java_broker_are_shown_without_its_secrets() -> None:
    body = {"globalWhiteAddrs": ["10.*"], "plainAccessConfigs": [ACCOUNT]}
    admin = FakeAdmin({Code.GET_BROKER_CLUSTER_ACL_CONFIG: answer(body)})
    text = printed(acl.get_acl_config, admin, brokerAddr=BROKER)
    assert text.startswith("\nglobalWhiteRemoteAddresses: [10.*]\n\naccounts:\n  accessKey  ")
    assert "  topicPerms        : [a=PUB]\n" in text
    assert "hidden" not in text
    found = in_json(acl.get_acl_config, admin, clusterName="C")
    assert "secretKey" not in found[BROKER]["accounts"][0]
