"""Names of topics that the RocketMQ sink accepts."""

from __future__ import annotations

import pytest

from penstock.spark.sink.rocketmq.names import TOPIC, invalid_topic


@pytest.mark.parametrize("name", ["t", "%RETRY%g", "a-b_C|9", "x" * 127])
def test_names_that_topics_can_have(name: str) -> None:
    assert TOPIC.fullmatch(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ü", "x" * 128])
def test_names_that_they_cannot_have(name: str) -> None:
    assert not TOPIC.fullmatch(name)
    assert repr(name)[1:-1] in invalid_topic(name)
