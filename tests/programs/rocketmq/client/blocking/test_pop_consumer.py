"""The blocking POP consumer with real servers."""

from __future__ import annotations

from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import PopConsumer, Producer
from tools.harness.rocketmq.servers import QUICK, Servers, wait_for_route


def test_popping_acknowledging_and_hiding(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("BPopped", b"a"))
    wait_for_route(servers.address, "BPopped")
    with PopConsumer("BXG", "BPopped", servers.address, config=QUICK) as consumer:
        (found,) = consumer.receive(wait=30)
        consumer.change_invisible(found, 0)
        for again in consumer:
            consumer.ack(again)
            break
        assert again.body == b"a"
        assert consumer.receive(wait=0) == []
