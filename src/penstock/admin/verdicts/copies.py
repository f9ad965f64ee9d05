"""The rule for second copies: what is the matter with a node and its copies, and how bad it is."""

from __future__ import annotations

from typing import Any, Final

from penstock.cluster.copies import BEHIND_BYTES, FENCED, FOLLOWER, Replication, Told

WARN, BAD = "warn", "bad"  # as in rule.py, which loads numpy
GONE_S: Final = 10.0
"""A follower counts as gone after this many seconds without a request; it asks each second."""
_REFUSE: Final = "refuse"


def verdicts_on(told: Replication) -> list[dict[str, Any]]:
    """The verdicts on a node that answers, each with ``kind`` and ``level``; none if all is
    well.
    """
    if told.role == FENCED:
        return [_verdict("fenced", BAD)]
    if told.role == FOLLOWER:
        return _on_follower(told)
    if told.replicas_in_force >= told.replicas_acked:
        return []
    is_refusing = told.replicas_missing == _REFUSE
    return [_verdict("uncopied", BAD)] if is_refusing else [_verdict("without_copies", WARN)]


def verdicts_on_silent(seen: Told | None) -> list[dict[str, Any]]:
    """The verdicts on a follower that nsqadmin cannot ask, as its primary has seen it."""
    if seen is None or seen.asked_seconds_ago >= GONE_S:
        return [_verdict("copy_gone", BAD)]
    return [_verdict("copy_behind", WARN)] if seen.lag_bytes >= BEHIND_BYTES else []


def _on_follower(told: Replication) -> list[dict[str, Any]]:
    if told.error is not None:
        return [_verdict("not_following", BAD)]
    return [_verdict("copy_behind", WARN)] if told.is_far_behind else []


def _verdict(kind: str, level: str) -> dict[str, Any]:
    return {"kind": kind, "level": level}
