"""Second copies as nodes tell of them."""

from __future__ import annotations

from penstock.cluster.copies import Replication, Told, not_asked


def test_a_node_by_itself_has_no_copies() -> None:
    assert not Replication("primary").has_copies
    assert Replication("primary", 1).has_copies
    assert Replication("primary", replicas_acked=1).has_copies
    assert Replication("follower").has_copies


def test_who_is_named_and_was_not_asked() -> None:
    primary = Replication("primary", 2, before="a:1", followers=[Told("b:1"), Told("c:1")])
    standby = Replication("follower", 2, primary="p:1")
    assert primary.named == ["a:1", "b:1", "c:1"]
    assert not_asked([("p:1", primary), ("b:1", standby)], ["p:1", "b:1"]) == ["a:1", "c:1"]
