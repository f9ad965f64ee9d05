from __future__ import annotations

import pytest

from penstock.admin.rocketmq.names import group_of, is_system_group, kind_of


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", "normal"),
        ("%RETRY%billing", "retry"),
        ("%DLQ%billing", "dlq"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "system"),
        ("rmq_sys_wheel_timer", "system"),
        ("SCHEDULE_TOPIC_XXXX", "system"),
        ("TBW102", "system"),
        ("broker-a", "system"),
        ("main_REPLY_TOPIC", "system"),
        ("shop_REPLY_TOPIC", "normal"),
    ],
)
def test_the_name_of_a_topic_says_what_it_is(topic: str, kind: str) -> None:
    assert kind_of(topic, {"main", "broker-a"}) == kind


def test_groups_of_tools_are_told_apart() -> None:
    assert is_system_group("TOOLS_CONSUMER")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert not is_system_group("billing")


def test_retries_and_dead_letters_belong_to_a_group() -> None:
    assert [group_of(each) for each in ("%RETRY%g", "%DLQ%g", "g")] == ["g", "g", ""]
