"""The metrics of each role."""

from __future__ import annotations

from typing import Any

from penstock.replication.metrics import ReplicationMetrics
from penstock.replication.standing import Role


async def page(figures: dict[str, Any] | None) -> str:
    return "".join([each.text() async for each in ReplicationMetrics(lambda: figures).source()])


async def test_a_node_that_was_never_copied_has_none() -> None:
    assert await page(None) == ""


async def test_a_primary_shows_its_followers() -> None:
    follower = {"address": "b:1", "lag_messages": 3, "lag_bytes": 400, "asked_seconds_ago": 0.25}
    text = await page({"role": Role.PRIMARY, "epoch": 2, "followers": [follower]})
    assert "\nnsqd_replication_primary 1\n" in text
    assert "\nnsqd_replication_epoch 2\n" in text
    assert '\nnsqd_follower_lag_messages{follower="b:1"} 3\n' in text
    assert '\nnsqd_follower_lag_bytes{follower="b:1"} 400\n' in text
    assert '\nnsqd_follower_asked_seconds{follower="b:1"} 0.25\n' in text
    assert "nsqd_replication_lag" not in text
    assert "nsqd_replicas" not in text


async def test_a_primary_whose_oks_wait_shows_how_many_it_promises() -> None:
    text = await page({"role": Role.PRIMARY, "epoch": 0, "followers": [], "replicas_acked": 2,
                       "replicas_in_force": 0, "messages_waiting": 7})  # fmt: skip
    assert "\nnsqd_replicas_acked 2\n" in text
    assert "\nnsqd_replicas_in_force 0\n" in text
    assert "\nnsqd_replicas_messages_waiting 7\n" in text


async def test_a_follower_shows_its_lag_which_is_no_number_before_it_was_whole() -> None:
    figures = {"role": Role.FOLLOWER, "epoch": 1, "error": "away", "lag_messages": 5,
               "lag_bytes": 600, "lag_seconds": None}  # fmt: skip
    text = await page(figures)
    assert "\nnsqd_replication_primary 0\n" in text
    assert "\nnsqd_replication_following 0\n" in text
    assert "\nnsqd_replication_lag_messages 5\n" in text
    assert "\nnsqd_replication_lag_seconds NaN\n" in text
