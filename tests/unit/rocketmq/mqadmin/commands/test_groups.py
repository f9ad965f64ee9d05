from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import groups
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer, in_json, printed


def test_a_group_is_made() -> None:
    admin = FakeAdmin({Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: answer()})
    text = printed(
        groups.update_sub_group, admin, groupName="G", clusterName="C", retryMaxTimes="5",
        consumeEnable="false",
    )  # fmt: skip
    assert text.startswith(f"create subscription group to {BROKER} success.\nSubscriptionGroup")
    config = fastjson.loads(admin.asked[-1][3])
    assert (config["retryMaxTimes"], config["consumeEnable"]) == (5, False)
    assert config["notifyConsumerIdsChangedEnable"]
    assert "consumeMessageOrderly" not in config, "as 4.9's tool, unless it is asked for"
    printed(
        groups.update_sub_group, admin, groupName="G", clusterName="C", consumeMessageOrderly="true"
    )
    assert fastjson.loads(admin.asked[-1][3])["consumeMessageOrderly"] is True
    with pytest.raises(UsageWanted):
        printed(groups.update_sub_group, admin, groupName="G")


def test_a_group_is_deleted_with_its_topics() -> None:
    admin = FakeAdmin(
        {
            Code.DELETE_SUBSCRIPTIONGROUP: answer(), Code.DELETE_TOPIC_IN_BROKER: answer(),
            Code.DELETE_TOPIC_IN_NAMESRV: answer(),
        }
    )  # fmt: skip
    text = printed(groups.delete_sub_group, admin, groupName="G", clusterName="C")
    assert f"from broker [{BROKER}] in cluster [C] success." in text
    deleted = [each["topic"] for each in admin.fields(Code.DELETE_TOPIC_IN_BROKER)]
    assert deleted == ["%RETRY%G", "%DLQ%G"]
    admin.answers[Code.DELETE_TOPIC_IN_BROKER] = Refused(1, "no")
    text = printed(groups.delete_sub_group, admin, groupName="G", clusterName="C")
    assert text.endswith("CODE: 1  DESC: no\n")


@pytest.mark.parametrize(("given", "word"), [({"removeOffset": "true"}, "true"), ({}, "false")])
def test_brokers_of_4_9_and_of_5_are_told_whether_offsets_go(
    given: dict[str, str], word: str
) -> None:
    admin = FakeAdmin({Code.DELETE_SUBSCRIPTIONGROUP: answer()})
    printed(groups.delete_sub_group, admin, groupName="G", brokerAddr=BROKER, **given)
    (fields,) = admin.fields(Code.DELETE_SUBSCRIPTIONGROUP)
    assert (fields["removeOffset"], fields["cleanOffset"]) == (word, word)


def test_the_configuration_of_a_group() -> None:
    table = {"subscriptionGroupTable": {"G": {"groupName": "G", "consumeEnable": True}}}
    admin = FakeAdmin({Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(table)})
    text = printed(groups.get_consumer_config, admin, groupName="G")
    assert text.splitlines()[0] == "=" * 29 + "C:a" + "=" * 29
    assert "\nconsumeEnable                           =  true\n" in text
    assert in_json(groups.get_consumer_config, admin, groupName="nosuch") == {"groups": []}
