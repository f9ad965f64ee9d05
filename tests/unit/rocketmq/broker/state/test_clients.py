"""Clients: heartbeats in the accents of real ones, what they subscribe, their locks on queues."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.broker.state import clients, queue_locks
from penstock.rocketmq.broker.state.clients import Clients, Heartbeat, Member
from penstock.rocketmq.broker.state.queue_locks import EXPIRY_NS, QueueLocks
from penstock.rocketmq.broker.state.sql92 import Expression, ExpressionError
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

JAVA = (
    b'{"clientID":"ip@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",'
    b'"subString":"*","subVersion":1,"tagsSet":[],"topic":"T"}],"unitMode":false}],'
    b'"producerDataSet":[{"groupName":"PG"}]}'
)
CPP = (
    b'{"clientID":"2-ip@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,'
    b'"groupName":"CG","messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"2",'
    b'"topic":"T"},{"subString":"*","subVersion":"2","topic":"U"}]}]}\n'
)


@pytest.fixture
def registry() -> Clients[str]:
    return Clients()


def member(name: str, heard_ns: int = 0) -> Member[str]:
    return Member(name, f"peer of {name}", "127.0.0.1:5", Language.JAVA, 409, heard_ns)


def test_heartbeats() -> None:
    java, cpp = Heartbeat.parse(JAVA), Heartbeat.parse(CPP)
    assert (java.client_id, java.producers) == ("ip@1", ["PG"])
    assert cpp.producers == []
    for consumer in (java.consumers[0], cpp.consumers[0]):
        assert consumer.consume_type == "CONSUME_PASSIVELY"
        assert consumer.model == "CLUSTERING"
        assert consumer.consume_from == "CONSUME_FROM_FIRST_OFFSET"
    tag = "订单".encode("gbk")  # as C++ clients send it that were compiled so
    (consumer,) = Heartbeat.parse(CPP.replace(b'"*"', b'"' + tag + b'"')).consumers
    assert tag.decode("utf-8", "replace") in [each.text for each in consumer.subscriptions]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", *(b'{"clientID":"x",%s}' % part for part in (
        b'"consumerDataSet":[{}]', b'"producerDataSet":[1]', b'"producerDataSet":1',
        b'"consumerDataSet":true', b'"consumerDataSet":[{"groupName":"g","subscriptionDataSet":1}]',
    )), JAVA.replace(b'"PG"', b'"' + b"P" * 256 + b'"'),
        JAVA.replace(b'"ip@1"', b'"' + b"i" * 1025 + b'"')]
)  # fmt: skip
def test_what_is_no_heartbeat(body: bytes) -> None:
    with pytest.raises(BodyError):
        Heartbeat.parse(body)


def test_joining_and_leaving(registry: Clients[str]) -> None:
    first, second = member("c1"), member("c2")
    assert [g.name for g in registry.beat(Heartbeat.parse(JAVA), first)] == ["CG"]
    assert registry.beat(Heartbeat.parse(JAVA), first) == []
    assert (registry.subscribers("T"), registry.subscribers("U")) == (["CG"], [])
    assert len(registry.beat(Heartbeat.parse(CPP), second)) == 1
    group = registry.consumers["CG"]
    assert list(group.subscriptions) == ["T", "U"]
    assert group.member("c2") is second
    assert len(registry.beat(Heartbeat.parse(JAVA), first)) == 1, "the last heartbeat wins"
    assert registry.producer_of("c1") is first
    assert registry.leave(first.peer, "PG", None) == []
    assert registry.producer_of("c1") is None
    assert registry.leave(first.peer, None, "CG") == [group]
    assert registry.leave(first.peer, None, "CG") == []
    assert registry.disconnected(second.peer) == [group]
    assert registry.consumers == {}
    assert registry.leave(second.peer, "none", "none") == []


def test_producers_are_found_by_their_id(registry: Clients[str]) -> None:
    first = member("c1")
    registry.beat(Heartbeat.parse(JAVA), first)
    renamed = Member("c9", first.peer, first.address, first.language, first.version, 0)
    registry.beat(Heartbeat.parse(JAVA), renamed)
    assert registry.producer_of("c1") is None
    assert registry.producer_of("c9") is renamed
    again = Member("c9", "a newer connection", "127.0.0.1:6", Language.JAVA, 409, 0)
    registry.beat(Heartbeat.parse(JAVA), again)
    assert registry.consumer_of("CG", "c9") is again
    registry.disconnected(renamed.peer)
    assert registry.producer_of("c9") is again
    assert registry.consumer_of("CG", "c9") is again
    assert registry.consumer_of("none", "c9") is None
    assert [group.name for group in registry.disconnected(again.peer)] == ["CG"]
    assert registry.producer_of("c9") is None
    assert (registry.consumers, registry.producers) == ({}, {})


def test_newer_subscriptions_replace_older_ones(registry: Clients[str]) -> None:
    for version, text in ((b"1", b"*"), (b"0", b"A"), (b"2", b"B")):
        newer = JAVA.replace(b'"*","subVersion":1', b'"%s","subVersion":%s' % (text, version))
        registry.beat(Heartbeat.parse(newer), member("c1"))
        subscription = registry.consumers["CG"].subscriptions["T"]
        assert subscription.tags == (["B"] if version == b"2" else [])


def test_the_number_of_groups_is_bounded(
    registry: Clients[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "GROUPS_MAX", 1)
    registry.beat(Heartbeat.parse(JAVA), member("c1"))
    with pytest.raises(BodyError, match="consumer groups"):
        registry.beat(Heartbeat.parse(JAVA.replace(b'"CG"', b'"CG2"')), member("c1"))
    with pytest.raises(BodyError, match="producer groups"):
        registry.beat(Heartbeat.parse(JAVA.replace(b'"PG"', b'"PG2"')), member("c1"))
    assert member("c").as_json()["language"] == "JAVA"


def test_another_account_takes_over_no_id_of_a_live_producer(registry: Clients[str]) -> None:
    beat = Heartbeat.parse(b'{"clientID":"c","producerDataSet":[{"groupName":"PG"}]}')
    first, again, other = (
        Member("c", peer, "127.0.0.1:5", Language.JAVA, 409, 0, key)
        for peer, key in (("1", "mine"), ("2", "mine"), ("3", "other"))
    )
    for member, owner in ((first, first), (other, first), (again, again), (other, again)):
        registry.beat(beat, member)
        assert registry.producer_of("c") is owner
    registry.disconnected("2")
    registry.beat(beat, other)
    assert registry.producer_of("c") is other


# --- subscriptions --------------------------------------------------------------------------------


def test_subscriptions_to_tags() -> None:
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
def test_subscriptions_to_all(text: str | None) -> None:
    subscription = Subscription.parse("T", text)
    assert subscription.wants_all
    assert subscription.matches("")


def test_subscriptions_by_sql() -> None:
    subscription = Subscription.parse("T", "a > 1", "SQL92")
    assert not subscription.wants_all
    assert subscription.matches("a\x012\x02")
    assert not subscription.matches("a\x011\x02")


def test_as_different_clients_write_it() -> None:
    java = {"topic": "T", "subString": "A", "subVersion": 1795218354882, "expressionType": "TAG"}
    cpp = {"topic": "T", "subString": "A", "subVersion": "1795218354882"}
    assert Subscription.from_json(java) == Subscription.from_json(cpp)
    versions: list[Any] = [None, "--5", "9" * 5000, []]
    for version in versions:
        assert Subscription.from_json({"topic": "T", "subVersion": version}).version == 0


NONSENSE = [("a >", "SQL92"), ("||", "TAG"), ("x", "LUA"), ("x" * 20_000, "TAG")]


def test_what_is_no_subscription() -> None:
    for value in (None, {}, {"topic": 1}):
        with pytest.raises(BodyError, match="without topic"):
            Subscription.from_json(value)


@pytest.mark.parametrize(("text", "kind"), NONSENSE)
def test_nonsense_is_refused_but_in_a_heartbeat_where_it_matches_nothing(
    text: str, kind: str
) -> None:
    with pytest.raises((BodyError, ExpressionError)):
        Subscription.parse("T", text, kind)
    value = {"topic": "T", "subString": text, "expressionType": kind, "subVersion": 3}
    subscription = Subscription.from_json(value)
    assert subscription.problem
    assert (subscription.kind, subscription.version) == (kind, 3)
    assert not subscription.wants_all
    assert not subscription.matches("TAGS\x01x\x02")


# --- filter expressions: values, NULL, errors with a place ----------------------------------------


MESSAGE = {"TAGS": "TagA", "a": "3", "b": "3.5", "name": "it's", "yes": "true", "no": "FALSE"}


@pytest.mark.parametrize(
    "text",
    [
        "a = 3", "a = 3.0", "a=3l", "b > 3", "a >= 3 AND a <= 3", "a <> 4", "a between 0 and 3",
        "a NOT BETWEEN 4 AND 5", "TAGS in ('TagA', 'TagB')", "TAGS NOT IN ('x')", "TAGS = 'TagA'",
        "none IS NULL", "a is not null", "name = 'it''s'", "yes", "yes = TRUE", "no = false",
        "NOT no", "NOT NOT yes", "(a > 1 OR none > 1) AND NOT (a > 5)", "a > -1", "a < +4",
        "a > b OR b > a", "b > .5e1 or b < 1e2", "name CONTAINS 't''s'", "TAGS STARTSWITH 'Tag'",
        "TAGS NOT ENDSWITH 'B'", "TRUE", "a = 3 OR none = 1", "a = '3'", "not (none is not null)",
    ],
)  # fmt: skip
def test_what_an_expression_passes(text: str) -> None:
    assert Expression(text).matches(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "a = 4", "none = 1", "none <> 1", "NOT (none = 1)", "name > 3", "NOT (name > 3)", "a",
        "none", "FALSE", "NULL", "none IN ('x')", "none NOT IN ('x')", "A = 3", "a = '4'",
        "a = '3.0'", "a = 3 AND none = 1", "none BETWEEN 1 AND 2", "none NOT BETWEEN 1 AND 2",
        "none CONTAINS ''",
    ],
)  # fmt: skip
def test_what_it_does_not(text: str) -> None:
    assert not Expression(text).matches(MESSAGE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a > > 3", "expected a property, .* at character 5 .* found '> 3'"),
        ("", "found 'the end'"),
        ("a = ", "found 'the end'"),
        ("a = 3 b", "expected the end at character 7"),
        ("a > 'x'", "have no order"),
        ("a between 'x' and 3", "have no order"),
        ("a in ()", "a text in single quotes"),
        ("a in ('x'", r"expected \)"),
        ("a not 3", "expected BETWEEN, IN"),
        ("a = 'x", "expected a name"),
        ("a # 3", "expected a name"),
        ("a is 3", "expected NULL"),
        ("- a", "expected a number"),
        ("(" * 200, "nested more than 100"),
        ("a = " + "1" * 20_000, "more than 16384 characters"),
    ],
)
def test_errors_say_where(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        Expression(text)


WORDS = """a b ( ) , = <> > >= < <= - + 3 4.5 'x' AND OR NOT IN IS NULL BETWEEN TRUE CONTAINS"""
words = st.sampled_from(WORDS.split())


@given(st.lists(words, max_size=12), st.dictionaries(st.sampled_from("ab"), st.text(max_size=3)))
def test_garbage_raises_nothing_else(parts: list[str], message: dict[str, str]) -> None:
    with contextlib.suppress(ExpressionError):
        Expression(" ".join(parts)).matches(message)


# --- locks ----------------------------------------------------------------------------------------


Q0, Q1 = MessageQueue("b", 0, "T"), MessageQueue("b", 1, "T")


LOCKING = st.tuples(
    st.sampled_from(["lock", "unlock", "forget"]), st.sampled_from("gh"), st.sampled_from("cd"),
    st.lists(st.sampled_from([Q0, Q1]), unique=True), st.sampled_from([0, 1, EXPIRY_NS]),
)  # fmt: skip


@pytest.mark.parametrize("most", [1, queue_locks.LOCKS_MAX])
@given(st.lists(LOCKING, max_size=30))
def test_one_client_of_a_group_at_a_time_until_it_lapses(
    most: int, history: list[tuple[str, str, str, list[MessageQueue], int]]
) -> None:
    locks, now = QueueLocks(), 0
    model: dict[tuple[str, MessageQueue], tuple[str, int]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_locks, "LOCKS_MAX", most)
        for kind, group, client, queues, passed in history:
            now += passed
            if kind == "lock":
                held = []
                for queue in queues:
                    owner, renewed = model.get((group, queue), (client, now))
                    is_free = owner == client or now - renewed > EXPIRY_NS
                    if is_free and ((group, queue) in model or len(model) < most):
                        model[group, queue] = (client, now)
                        held.append(queue)
                assert locks.lock(group, client, queues, now) == held
            elif kind == "unlock":
                locks.unlock(group, client, queues)
                for queue in queues:
                    if model.get((group, queue), ("", 0))[0] == client:
                        del model[group, queue]
            else:
                locks.forget_expired(now)
                model = {key: each for key, each in model.items() if now - each[1] <= EXPIRY_NS}
            for (group_, queue), (owner, renewed) in model.items():
                for each in "cd":
                    holds = each == owner and now - renewed <= EXPIRY_NS
                    assert locks.holds(group_, each, queue, now) == holds
