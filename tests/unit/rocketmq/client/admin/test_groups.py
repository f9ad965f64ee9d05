from __future__ import annotations

from penstock.rocketmq.client.admin.groups import delete_group, group_configs, put_group
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_settings_are_read_and_written_as_json() -> None:
    known = {"subscriptionGroupTable": {"G": {"groupName": "G"}}}
    admin = FakeAdmin(
        {
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(known),
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: answer(),
        }
    )
    assert admin.do(group_configs(admin, BROKER)) == known
    admin.do(put_group(admin, BROKER, {"groupName": "G"}))
    assert fastjson.loads(admin.asked[-1][3]) == {"groupName": "G"}


def test_a_group_goes_by_the_field_of_4_9_and_that_of_5() -> None:
    admin = FakeAdmin({Code.DELETE_SUBSCRIPTIONGROUP: answer()})
    admin.do(delete_group(admin, BROKER, "G", with_offsets=True))
    wanted = {"groupName": "G", "removeOffset": "true", "cleanOffset": "true"}
    assert admin.fields(Code.DELETE_SUBSCRIPTIONGROUP) == [wanted]
