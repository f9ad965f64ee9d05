from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin.commands import cleaning
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    CLUSTERS,
    FakeAdmin,
    Work,
    answer,
    printed,
)


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (cleaning.clean_expired, Code.CLEAN_EXPIRED_CONSUMEQUEUE),
        (cleaning.clean_unused, Code.CLEAN_UNUSED_TOPIC),
        (cleaning.delete_expired, Code.DELETE_EXPIRED_COMMITLOG),
    ],
)
def test_a_broker_a_cluster_or_all_clusters(work: Work, code: Code) -> None:
    admin = FakeAdmin({code: answer()})
    for given in ({"brokerAddr": BROKER}, {"cluster": "C"}, {}):
        assert printed(work, admin, **given) == "success"
    assert [each[0] for each in admin.asked if each[1] == code] == [BROKER] * 3


def test_without_brokers_nothing_is_cleaned() -> None:
    admin = FakeAdmin({Code.GET_BROKER_CLUSTER_INFO: answer({})})
    assert CLUSTERS.body
    assert printed(cleaning.clean_unused, admin) == "false"
