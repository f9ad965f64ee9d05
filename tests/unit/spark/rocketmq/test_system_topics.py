from __future__ import annotations

import pytest

from penstock.rocketmq.broker import names
from penstock.spark.rocketmq.system_topics import is_system


@pytest.mark.parametrize(
    "topic", [*sorted(names.SYSTEM_TOPICS), names.retry_topic("g"), names.dead_letter_topic("g")]
)
def test_what_the_broker_has_for_itself(topic: str) -> None:
    assert is_system(topic)


@pytest.mark.parametrize("topic", ["orders", "RETRY", "my_rmq_sys_topic", "SELF_TEST_TOPIC2"])
def test_what_is_somebodys(topic: str) -> None:
    assert not is_system(topic)
