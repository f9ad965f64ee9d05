"""Queues to write to."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink.rocketmq.queues import Queue, Queues, queue_numbered, queues_in


def route(**perms: int) -> dict[str, Any]:
    return {
        "brokerDatas": [
            {"brokerName": name, "brokerAddrs": {"0": f"{name}:1", "1": f"{name}:2"}}
            for name in perms
        ],
        "queueDatas": [
            {"brokerName": name, "perm": perm, "writeQueueNums": 2} for name, perm in perms.items()
        ],
    }


class Routes:
    def __init__(self, routes: dict[str, Any]) -> None:
        self.routes = routes
        self.asked: list[str] = []

    def route(self, topic: str) -> Any:
        self.asked.append(topic)
        return self.routes.get(topic)


def test_masters_that_may_be_written_to() -> None:
    assert queues_in(route(a=6, b=4), 16) == [Queue("a:1", 0), Queue("a:1", 1)]
    assert queues_in(route(a=2, b=6), 1) == [Queue("a:1", 0), Queue("b:1", 0)]
    without = route(a=6)
    del without["brokerDatas"][0]["brokerAddrs"]["0"]
    assert queues_in(without, 16) == []
    with pytest.raises(SourceError, match="makes no sense"):
        queues_in({"queueDatas": 5}, 16)


def test_queues_are_in_the_order_of_java_s_clients() -> None:
    assert queues_in(route(b=6, a=6), 1) == [Queue("a:1", 0), Queue("b:1", 0)]


def test_a_queue_by_its_number() -> None:
    queues = queues_in(route(a=6, b=6), 16)
    assert queue_numbered(0, queues, "t") == Queue("a:1", 0)
    assert queue_numbered(1, queues, "t") == Queue("b:1", 1)
    with pytest.raises(SinkError, match=r"topic t has no queue 2 to write to, its last is 1: give"):
        queue_numbered(2, queues, "t")


def test_a_route_is_asked_for_once_and_when_it_was_forgotten() -> None:
    routes = Routes({"t": route(a=6), "TBW102": route(b=7)})
    queues = Queues(routes)  # type: ignore[arg-type]
    assert queues.of("t") == queues.of("t") == [Queue("a:1", 0), Queue("a:1", 1)]
    queues.forget("t")
    queues.of("t")
    assert routes.asked == ["t", "t"]
    assert queues.of("new") == [Queue("b:1", 0), Queue("b:1", 1)]


def test_a_topic_that_nobody_makes() -> None:
    with pytest.raises(SinkError, match=r"topic t is on no broker .* autoCreateTopicEnable=true"):
        Queues(Routes({})).of("t")  # type: ignore[arg-type]
