from __future__ import annotations

from penstock.rocketmq.mqadmin.errors import UsageWanted


def test_missing_options_are_named() -> None:
    assert "neither a broker nor a cluster" in str(UsageWanted())
