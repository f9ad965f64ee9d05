"""Connections of a task to brokers."""

from __future__ import annotations

from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.sink.idle import KEPT_MAX, Idle


def test_they_are_kept_and_not_shared() -> None:
    with Idle(BrokerAccess().link) as links:
        with links.to("a:1") as one, links.to("a:1") as two, links.to("b:1") as other:
            assert one is not two
            assert other.address == "b:1"
        with links.to("a:1") as again:
            assert again in (one, two)


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_no_more_wait_than_the_limit() -> None:
    opened: list[Connection] = []

    def connect(address: str) -> Connection:
        opened.append(Connection(address))
        return opened[-1]

    with Idle(connect) as idle:
        for number in range(KEPT_MAX + 1):
            with idle.to(f"{number}:1"), idle.to("again:1"):
                pass
        assert [each.address for each in opened if each.is_closed] == ["0:1", "1:1"]
        assert len([each for each in opened if each.address == "again:1"]) == 1
    assert all(each.is_closed for each in opened)
