"""Which topics have dead letters by their names."""

from __future__ import annotations

from penstock.nsq.dead_letters.topics import group_of, is_named_so, is_rocketmq


def test_by_name() -> None:
    names = ["orders.dead", "orders.dead#ephemeral", "%DLQ%g", "orders", "dead", "x.deadly"]
    assert [name for name in names if is_named_so(name)] == names[:3]
    assert [name for name in names if is_rocketmq(name)] == ["%DLQ%g"]
    assert [group_of(name) for name in names[1:4]] == ["", "g", ""]
