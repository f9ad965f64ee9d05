"""Subscriptions from pulls and heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.state.sql92 import ExpressionError
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.errors import BodyError


def test_tags() -> None:
    subscription = Subscription.parse("T", "TagA || TagB||TagA")
    assert subscription.tags == ["TagA", "TagB"]
    assert subscription.codes == {2598919, 2598920}
    assert subscription.matches("TAGS\x01TagB\x02")
    assert not subscription.matches("TAGS\x01TagC\x02")
    assert not subscription.matches("")
    assert subscription.as_json() == {
        "classFilterMode": False, "codeSet": [2598919, 2598920], "expressionType": "TAG",
        "subString": "TagA || TagB||TagA", "subVersion": 0, "tagsSet": ["TagA", "TagB"],
        "topic": "T",
    }  # fmt: skip


@pytest.mark.parametrize("text", [None, "", "*"])
def test_all(text: str | None) -> None:
    subscription = Subscription.parse("T", text)
    assert subscription.wants_all
    assert subscription.matches("")


def test_sql() -> None:
    subscription = Subscription.parse("T", "a > 1", "SQL92")
    assert not subscription.wants_all
    assert subscription.matches("a\x012\x02")
    assert not subscription.matches("a\x011\x02")
    with pytest.raises(ExpressionError):
        Subscription.parse("T", "a >", "SQL92")


def test_as_different_clients_write_it() -> None:
    java = {"topic": "T", "subString": "A", "subVersion": 1795218354882, "expressionType": "TAG"}
    cpp = {"topic": "T", "subString": "A", "subVersion": "1795218354882"}
    assert Subscription.from_json(java) == Subscription.from_json(cpp)
    versions: list[Any] = [None, "--5", "9" * 5000, []]
    for version in versions:
        assert Subscription.from_json({"topic": "T", "subVersion": version}).version == 0


def test_what_is_none() -> None:
    for value in (None, {}, {"topic": 1}):
        with pytest.raises(BodyError, match="without topic"):
            Subscription.from_json(value)
    for text, kind in (("||", "TAG"), ("x", "LUA"), ("x" * 20_000, "TAG")):
        with pytest.raises(BodyError):
            Subscription.parse("T", text, kind)


def test_a_heartbeat_s_bad_subscription_is_kept_and_matches_nothing() -> None:
    for text, kind in (("a >", "SQL92"), ("||", "TAG"), ("x", "LUA"), ("x" * 20_000, "TAG")):
        value = {"topic": "T", "subString": text, "expressionType": kind, "subVersion": 3}
        subscription = Subscription.from_json(value)
        assert subscription.problem
        assert (subscription.kind, subscription.version) == (kind, 3)
        assert not subscription.wants_all
        assert not subscription.matches("TAGS\x01x\x02")
