"""Second copies as nodes tell of them."""

from __future__ import annotations

import pytest

from penstock.cluster.copies import (
    BEHIND_BYTES,
    BEHIND_S,
    GONE_S,
    TROUBLES,
    Replication,
    Told,
    not_asked,
)


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


@pytest.mark.parametrize(
    ("told", "kind", "level"),
    [
        (Replication("primary", 1), "", None),
        (Replication("primary", 1, replicas_acked=1, replicas_in_force=1), "", None),
        (Replication("primary", replicas_acked=2, replicas_missing="refuse"),
         "uncopied", "bad"),
        (Replication("primary", replicas_acked=1, replicas_missing="go-on"),
         "without_copies", "warn"),
        (Replication("fenced", 1), "fenced", "bad"),
        (Replication("follower", 1, lag_seconds=BEHIND_S - 1, lag_bytes=BEHIND_BYTES - 1),
         "", None),
        (Replication("follower", 1, whole=True, lag_seconds=BEHIND_S), "", None),
        (Replication("follower", 1, lag_seconds=None), "copy_behind", "warn"),
        (Replication("follower", 1, lag_seconds=BEHIND_S), "copy_behind", "warn"),
        (Replication("follower", 1, whole=True, lag_bytes=BEHIND_BYTES), "copy_behind", "warn"),
        (Replication("follower", 1, error="OTHER_HISTORY", lag_seconds=BEHIND_S),
         "not_following", "bad"),
    ],
)  # fmt: skip
def test_what_is_the_matter_with_a_node_that_answers(
    told: Replication, kind: str, level: str | None
) -> None:
    assert (told.trouble, TROUBLES.get(told.trouble)) == (kind, level)


def test_what_is_the_matter_with_a_copy_that_cannot_be_asked() -> None:
    assert Told("b:1", asked_seconds_ago=GONE_S).trouble == "copy_gone"
    assert Told("b:1", lag_bytes=BEHIND_BYTES).trouble == "copy_behind"
    assert Told("b:1", asked_seconds_ago=0.5).trouble == ""
