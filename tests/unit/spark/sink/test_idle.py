"""Connections of a task to brokers."""

from __future__ import annotations

from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.sink.idle import Idle


def test_they_are_kept_and_not_shared() -> None:
    with Idle(BrokerAccess().link) as links:
        with links.to("a:1") as one, links.to("a:1") as two, links.to("b:1") as other:
            assert one is not two
            assert other.address == "b:1"
        with links.to("a:1") as again:
            assert again in (one, two)
