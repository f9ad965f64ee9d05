from __future__ import annotations

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import name_servers
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import NAME_SERVER, FakeAdmin, answer, in_json, printed


def test_values_are_stored_and_forgotten() -> None:
    admin = FakeAdmin({Code.PUT_KV_CONFIG: answer(), Code.DELETE_KV_CONFIG: answer()})
    printed(name_servers.update_kv_config, admin, namespace="N", key="k", value="v")
    printed(name_servers.delete_kv_config, admin, namespace="N", key="k")
    assert admin.fields(Code.PUT_KV_CONFIG) == [{"namespace": "N", "key": "k", "value": "v"}]
    assert admin.fields(Code.DELETE_KV_CONFIG) == [{"namespace": "N", "key": "k"}]


def test_permission_to_write() -> None:
    admin = FakeAdmin(
        {
            Code.WIPE_WRITE_PERM_OF_BROKER: answer(wipeTopicCount=3),
            Code.ADD_WRITE_PERM_OF_BROKER: Refused(1, "no"),
        }
    )
    assert printed(name_servers.wipe_write_perm, admin, brokerName="a") == (
        f"wipe write perm of broker[a] in name server[{NAME_SERVER}] OK, 3\n"
    )
    found = in_json(name_servers.add_write_perm, admin, brokerName="a")["results"][0]
    assert (found["nameServer"], found["error"]) == (NAME_SERVER, "CODE: 1  DESC: no")


def test_settings() -> None:
    admin = FakeAdmin(
        {Code.GET_NAMESRV_CONFIG: answer(b"b=2\na=1\n"), Code.UPDATE_NAMESRV_CONFIG: answer()}
    )
    assert in_json(name_servers.get_namesrv_config, admin) == {NAME_SERVER: {"a": "1", "b": "2"}}
    text = printed(
        name_servers.update_namesrv_config, admin, key="a", value="1", namesrvAddr=NAME_SERVER
    )
    assert text == f"update name server config success![{NAME_SERVER}]\na : 1\n"
