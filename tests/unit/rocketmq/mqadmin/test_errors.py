from __future__ import annotations

from penstock.rocketmq.mqadmin.errors import Refused, UsageWanted


def test_a_refusal_reads_as_upstreams() -> None:
    assert str(Refused(17, "No route\nSee http://")) == "CODE: 17  DESC: No route"
    assert str(Refused(1, None)) == "CODE: 1  DESC: "


def test_missing_options_are_named() -> None:
    assert "neither a broker nor a cluster" in str(UsageWanted())
