from __future__ import annotations

from penstock.rocketmq.client.admin import name_servers
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import NAME_SERVER, FakeAdmin, answer


def test_values_are_stored_read_and_forgotten() -> None:
    admin = FakeAdmin(
        {
            Code.PUT_KV_CONFIG: answer(), Code.GET_KV_CONFIG: answer(value="v"),
            Code.DELETE_KV_CONFIG: answer(),
        }
    )  # fmt: skip
    admin.do(name_servers.put_value(admin, NAME_SERVER, "n", "k", "v"))
    assert admin.do(name_servers.value_of(admin, "n", "k")) == "v"
    admin.do(name_servers.delete_value(admin, NAME_SERVER, "n", "k"))
    key = {"namespace": "n", "key": "k"}
    assert [fields for _, _, fields, _ in admin.asked] == [key | {"value": "v"}, key, key]


def test_the_number_of_topics_whose_permission_changed() -> None:
    admin = FakeAdmin(
        {
            Code.WIPE_WRITE_PERM_OF_BROKER: answer(wipeTopicCount=2),
            Code.ADD_WRITE_PERM_OF_BROKER: answer(addTopicCount=3),
        }
    )
    assert admin.do(name_servers.wipe_write_perm(admin, NAME_SERVER, "a")) == 2
    assert admin.do(name_servers.add_write_perm(admin, NAME_SERVER, "a")) == 3


def test_settings_are_properties() -> None:
    admin = FakeAdmin(
        {Code.GET_NAMESRV_CONFIG: answer(b"a=1\n"), Code.UPDATE_NAMESRV_CONFIG: answer()}
    )
    assert admin.do(name_servers.name_server_config(admin, NAME_SERVER)) == {"a": "1"}
    admin.do(name_servers.set_name_server_config(admin, NAME_SERVER, {"a": "2"}))
    assert admin.asked[-1][3].strip() == b"a=2"
