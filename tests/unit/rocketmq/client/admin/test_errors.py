from __future__ import annotations

from penstock.rocketmq.client.admin.errors import Refused


def test_a_refusal_reads_as_upstreams() -> None:
    assert str(Refused(17, "No route\nSee http://")) == "CODE: 17  DESC: No route"
    assert str(Refused(1, None)) == "CODE: 1  DESC: "
