from __future__ import annotations

from penstock.core.metrics import mqbroker as metrics
from penstock.core.metrics import node
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.client.message import Message
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tests.metrics_pages import ask, missing, page_of, until
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import QUICK, make_topic, wait_for_route


def test_both_ports_show_the_whole_list() -> None:
    address = unused_address()
    with run_mqnamesrv() as name_server, run_mqbroker(
        name_server=name_server.rocketmq, monitoringAddress=address,
        registerBrokerTimeoutMills=60_000,
    ) as broker:  # fmt: skip
        make_topic(broker, "t")
        wait_for_route(name_server.rocketmq, "t")
        with Producer("p", name_server.rocketmq, config=QUICK) as producer:
            producer.send(Message("t", b"one"))
        assert ask(address, "/ready") == (200, "OK")
        page = page_of(address, "mqbroker")
        assert page.keys() == page_of(broker.http, "mqbroker").keys()
    assert not missing(page, metrics.LIST.metrics)
    assert page[metrics.PUT_MESSAGES.name].value() == 1
    assert page[metrics.NAME_SERVERS_CONNECTED.name].value() == 1
    assert page[node.TOPIC_MESSAGES.name].value(topic="t") == 1


def test_ready_means_registered_at_a_name_server() -> None:
    address, name_server = unused_address(), unused_address()
    with run_mqbroker(name_server=name_server, monitoringAddress=address):
        waiting = f"NOK - not registered at any name server yet: {name_server}"
        assert ask(address, "/ready") == (503, waiting)
        assert ask(address, "/ping") == (200, "OK")
        with run_mqnamesrv(listenPort=name_server.rpartition(":")[2]):
            assert until(lambda: ask(address, "/ready") == (200, "OK"))
