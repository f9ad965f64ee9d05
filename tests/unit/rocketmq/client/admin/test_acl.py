from __future__ import annotations

from penstock.rocketmq.client.admin import acl
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_accounts_and_trusted_addresses() -> None:
    admin = FakeAdmin(
        {
            Code.GET_BROKER_CLUSTER_ACL_CONFIG: answer({"globalWhiteAddrs": ["10.*"]}),
            Code.GET_BROKER_CLUSTER_ACL_INFO: answer(brokerName="a"),
            Code.UPDATE_AND_CREATE_ACL_CONFIG: answer(), Code.DELETE_ACL_CONFIG: answer(),
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: answer(),
        }
    )  # fmt: skip
    assert admin.do(acl.acl_config(admin, BROKER)) == {"globalWhiteAddrs": ["10.*"]}
    assert admin.do(acl.acl_version(admin, BROKER)).text("brokerName") == "a"
    admin.do(acl.put_account(admin, BROKER, {"accessKey": "k"}))
    admin.do(acl.delete_account(admin, BROKER, "k"))
    admin.do(acl.set_trusted(admin, BROKER, "10.*"))
    admin.do(acl.set_trusted(admin, BROKER, "10.*", "/acl.yml"))
    assert [fields for _, _, fields, _ in admin.asked[2:]] == [
        {"accessKey": "k"}, {"accessKey": "k"}, {"globalWhiteAddrs": "10.*"},
        {"globalWhiteAddrs": "10.*", "aclFileFullPath": "/acl.yml"},
    ]  # fmt: skip
