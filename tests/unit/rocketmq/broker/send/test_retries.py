"""Where a message goes that was delivered in vain."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.messages import properties


@pytest.mark.parametrize(
    ("reconsumed", "most", "version", "topic"),
    [(15, None, 409, "%RETRY%G"), (16, None, 409, "%DLQ%G"), (2, 3, 409, "%RETRY%G"),
     (3, 3, 409, "%DLQ%G"), (3, 3, 63, "%RETRY%G"), (16, 20, 409, "%RETRY%G")],
)  # fmt: skip
def test_sends_to_a_retry_topic(
    services: Services, reconsumed: int, most: int | None, version: int, topic: str
) -> None:
    draft = Draft("%RETRY%G", 3, b"x", "DELAY\x015\x02", reconsume_times=reconsumed)
    ruled = services.retries.dead_letter_rule(draft, most, version)
    assert (ruled.topic, ruled.reconsume_times) == (topic, reconsumed)
    delay = properties.value_of(ruled.properties, "DELAY")
    assert (ruled.queue, delay) == ((0, None) if topic == "%DLQ%G" else (3, "5"))


def test_sends_to_the_retry_topic_of_no_group(services: Services) -> None:
    services.settings.auto_create_subscription_group = False
    with pytest.raises(RefusedError) as refusal:
        services.retries.dead_letter_rule(Draft("%RETRY%none", 0, b"x"), None, 409)
    assert refusal.value.code == 26
