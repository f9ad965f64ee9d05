"""Access rules as values."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.acl.rules import Account, Permission, Rules
from penstock.rocketmq.broker.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRACE_TOPIC

KEYS = {"accessKey": "RocketMQ", "secretKey": "12345678"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DENY", Permission.DENY),
        ("PUB", Permission.PUB),
        (" SUB ", Permission.SUB),
        ("PUB|SUB", Permission.PUB | Permission.SUB),
        ("SUB | PUB", Permission.PUB | Permission.SUB),
    ],
)
def test_permissions(text: str, wanted: Permission) -> None:
    assert Permission.parse(text) == wanted


@pytest.mark.parametrize("text", ["", "pub", "ANY", "PUB,SUB", "PUB|"])
def test_other_words_are_no_permission(text: str) -> None:
    with pytest.raises(ConfigError, match="is no permission; there are DENY, PUB, SUB"):
        Permission.parse(text)


def test_an_account_that_says_nothing_may_do_nothing() -> None:
    account = Account.parse(KEYS)
    assert not account.is_admin
    assert account.default_topic == account.default_group == Permission.DENY
    assert not account.trusted.matches("127.0.0.1")
    assert "12345678" not in repr(account)


def test_an_account_in_full() -> None:
    account = Account.parse(
        {
            **KEYS,
            "whiteRemoteAddress": "10.0.0.*",
            "admin": "true",
            "defaultTopicPerm": "DENY",
            "defaultGroupPerm": "SUB",
            "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
            "groupPerms": [" groupC = SUB "],
        }
    )
    assert account.is_admin
    assert account.default_group == Permission.SUB
    assert account.permissions == {
        "topicA": Permission.DENY,
        "topicB": Permission.PUB | Permission.SUB,
        "%RETRY%groupC": Permission.SUB,
    }
    assert account.trusted.matches("10.0.0.7")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accessKey": "short"}, "accessKey and secretKey must be there"),
        ({"secretKey": "secret"}, "accessKey and secretKey must be there"),
        ({"secretKey": None}, "accessKey and secretKey must be there"),
        ({"secretKey": ["a"]}, "secretKey must be a single value"),
        ({"topicPerms": "topicA=PUB"}, "account 'RocketMQ': topicPerms must be a list"),
        ({"topicPerms": ["topicA"]}, "'topicA' is not of the form name=permission"),
        ({"groupPerms": ["=PUB"]}, "'=PUB' is not of the form name=permission"),
        ({"groupPerms": ["g=ALL"]}, "'ALL' is no permission"),
        ({"whiteRemoteAddress": "nowhere"}, "'nowhere' is no address"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Account.parse({**KEYS, **change})
    assert "12345678" not in str(caught.value)


def test_rules_of_several_files() -> None:
    rules = Rules()
    assert rules.add(None) == []
    assert rules.add({"globalWhiteRemoteAddresses": ["10.0.0.1", None], "accounts": [KEYS]}) == []
    other = {"accessKey": "another", "secretKey": "87654321"}
    again = {**KEYS, "admin": "true"}
    assert rules.add({"accounts": [other, again]}) == ["RocketMQ"]
    assert list(rules.accounts) == ["RocketMQ", "another"]
    assert not rules.accounts["RocketMQ"].is_admin
    assert [pattern.matches("10.0.0.1") for pattern in rules.trusted] == [True]


@pytest.mark.parametrize(
    "value",
    ["text", ["list"], {"accounts": {"a": 1}}, {"accounts": ["text"]},
     {"globalWhiteRemoteAddresses": "10.0.0.1"}, {"accounts": [{}]}],
)  # fmt: skip
def test_files_without_sense_change_nothing(value: Any) -> None:
    rules = Rules()
    with pytest.raises(ConfigError):
        rules.add(value)
    assert rules == Rules()


def test_what_an_account_may() -> None:
    account = Account.parse(
        {**KEYS, "defaultTopicPerm": "SUB", "topicPerms": ["a=PUB", f"{HALF_TOPIC}=SUB"],
         "groupPerms": ["g=SUB"]}
    )  # fmt: skip
    pub, sub = Permission.PUB, Permission.SUB
    assert [account.may("a", each) for each in (pub, sub, pub | sub)] == [True, False, True]
    assert [account.may("other", each) for each in (pub, sub, pub | sub)] == [False, True, True]
    assert [account.may(f"%RETRY%{group}", sub) for group in "gh"] == [True, False]
    assert account.may(TRACE_TOPIC, pub)


def test_no_default_opens_where_messages_of_others_wait() -> None:
    every = {**KEYS, "defaultTopicPerm": "PUB|SUB", "topicPerms": [f"{HALF_TOPIC}=SUB"]}
    account = Account.parse(every)
    assert account.may(HALF_TOPIC, Permission.SUB)
    assert not account.may(SCHEDULE_TOPIC, Permission.SUB)
    assert not account.may(TIMER_TOPIC, Permission.PUB)


def test_trusted_addresses() -> None:
    rules = Rules()
    rules.add({"globalWhiteRemoteAddresses": ["10.0.0.*"]})
    assert rules.trusts("10.0.0.7")
    assert not rules.trusts("10.0.1.7")
