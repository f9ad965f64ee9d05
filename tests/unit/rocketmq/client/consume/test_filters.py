"""Tags and SQL92."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.filters import Filter, Subscription, filter_of, sql
from penstock.rocketmq.client.errors import BadFilter
from tools.harness.rocketmq.records import received


def test_tags_are_compared_as_texts() -> None:
    messages = [received(TAGS="a"), received(TAGS="b"), received()]
    assert filter_of("a || c").chosen(messages) == messages[:1]
    assert filter_of("*").chosen(messages) == messages
    assert filter_of("").chosen(messages) == messages
    assert sql("a > 5").chosen(messages) == messages


def test_a_filter_without_tags_is_none() -> None:
    with pytest.raises(BadFilter):
        Filter(" || ")


def test_a_subscription_as_heartbeats_have_it() -> None:
    found = Subscription("T", filter_of("TagA||TagB"), 7).as_json()
    assert found["codeSet"] == [2598919, 2598920]
    assert (found["tagsSet"], found["subVersion"]) == (["TagA", "TagB"], 7)
    assert Subscription("T", sql("a > 5"), 7).as_json()["expressionType"] == "SQL92"
