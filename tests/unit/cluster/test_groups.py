from __future__ import annotations

from typing import Any

import msgspec

from penstock.cluster.groups import LOG, ROCKETMQ, NodeGroups, whole_groups


def told(*topics: dict[str, Any]) -> NodeGroups:
    return msgspec.convert({"topics": topics}, NodeGroups)


def log_group(name: str, lag: int) -> dict[str, Any]:
    return {"group_name": name, "lag": lag, "rate": 0.5, "committed": {"0": 10}}


def test_sums() -> None:
    nodes = [
        ("a:1", told({"topic_name": "t", "log_groups": [log_group("g", 1)]})),
        ("b:1", told({"topic_name": "t", "log_groups": [log_group("g", 2)]})),
        ("c:1", told({"topic_name": "t", "log_groups": [log_group("g", 4)]})),
        ("go:1", told({"topic_name": "t"})),
        ("none:1", NodeGroups()),
    ]
    (found,) = whole_groups(nodes)
    assert (found.topic, found.group, found.kind) == ("t", "g", LOG)
    assert (found.lag, found.rate, found.clients) == (7, 1.5, 0)
    assert [(each.node, each.lag, each.end) for each in found.nodes] == [
        ("a:1", 1, 11), ("b:1", 2, 12), ("c:1", 4, 14),
    ]  # fmt: skip


def test_kinds_and_order() -> None:
    rocketmq = {"group_name": "g", "message_model": "CLUSTERING", "lag": 3, "rate": 2.0,
                "committed": {"0": 5, "1": 6}, "client_count": 2, "clients": None}  # fmt: skip
    node = told(
        {"topic_name": "u", "log_groups": [log_group("a", 0)]},
        {"topic_name": "t", "consumer_groups": [rocketmq], "log_groups": [log_group("g", 1)]},
    )
    found = whole_groups([("a:1", node)])
    assert [(each.topic, each.group, each.kind) for each in found] == [
        ("t", "g", LOG), ("t", "g", ROCKETMQ), ("u", "a", LOG),
    ]  # fmt: skip
    assert (found[1].clients, found[1].nodes[0].end) == (2, 14)
    assert [each.topic for each in whole_groups([("a:1", node)], "u")] == ["u"]


def aged(age: int, lag: int = 1, **more: Any) -> dict[str, Any]:
    return {**log_group("g", lag), "age": age, **more}


def test_age_and_owner_over_the_nodes() -> None:
    nodes = [
        ("a:1", told({"topic_name": "t", "log_groups": [aged(5, owner="new", expires_in=90)]})),
        ("b:1", told({"topic_name": "t", "log_groups": [aged(99, owner="old", expires_in=7)]})),
        ("c:1", told({"topic_name": "t", "log_groups": [aged(0, 0, owner=None)]})),
        ("before:1", told({"topic_name": "t", "log_groups": [log_group("g", 2)]})),
    ]
    (found,) = whole_groups(nodes)
    assert (found.owner, found.age, found.expires_in, found.stale) == ("new", 99, 7, False)
    assert [each.age for each in found.nodes] == [5, 99, 0, None]
    (of_before,) = whole_groups(nodes[3:])
    assert (of_before.owner, of_before.age, of_before.expires_in) == (None, None, None)


def test_a_group_is_stale_if_it_is_on_one_node() -> None:
    nodes = [("a:1", told({"topic_name": "t", "log_groups": [aged(5)]})),
             ("b:1", told({"topic_name": "t", "log_groups": [aged(99, stale=True)]}))]  # fmt: skip
    assert [each.stale for each in whole_groups(nodes)] == [True]
