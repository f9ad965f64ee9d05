"""The verdicts on nodes with second copies."""

from __future__ import annotations

import pytest

from penstock.admin.verdicts.copies import GONE_S
from penstock.admin.verdicts.copies import verdicts_on as on
from penstock.admin.verdicts.copies import verdicts_on_silent as on_silent
from penstock.cluster.copies import BEHIND_BYTES, BEHIND_S, Replication, Told


def kinds(found: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(each["kind"], each["level"]) for each in found]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (Replication("primary", 1), []),
        (Replication("primary", 1, replicas_acked=1, replicas_in_force=1), []),
        (Replication("primary", replicas_acked=2, replicas_missing="refuse"),
         [("uncopied", "bad")]),
        (Replication("primary", replicas_acked=1, replicas_missing="go-on"),
         [("without_copies", "warn")]),
        (Replication("fenced", 1), [("fenced", "bad")]),
        (Replication("follower", 1, lag_seconds=BEHIND_S - 1, lag_bytes=BEHIND_BYTES - 1), []),
        (Replication("follower", 1, whole=True, lag_seconds=BEHIND_S), []),
        (Replication("follower", 1, lag_seconds=None), [("copy_behind", "warn")]),
        (Replication("follower", 1, lag_seconds=BEHIND_S), [("copy_behind", "warn")]),
        (Replication("follower", 1, whole=True, lag_bytes=BEHIND_BYTES), [("copy_behind", "warn")]),
        (Replication("follower", 1, error="OTHER_HISTORY", lag_seconds=BEHIND_S),
         [("not_following", "bad")]),
    ],
)  # fmt: skip
def test_of_a_node_that_answers(told: Replication, found: list[tuple[str, str]]) -> None:
    assert kinds(on(told)) == found


def test_of_a_copy_that_nsqadmin_cannot_ask() -> None:
    assert kinds(on_silent(None)) == [("copy_gone", "bad")]
    assert kinds(on_silent(Told("b:1", asked_seconds_ago=GONE_S))) == [("copy_gone", "bad")]
    assert kinds(on_silent(Told("b:1", lag_bytes=BEHIND_BYTES))) == [("copy_behind", "warn")]
    assert on_silent(Told("b:1", asked_seconds_ago=0.5)) == []
