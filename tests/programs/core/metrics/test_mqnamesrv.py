from __future__ import annotations

from penstock.core.metrics import mqnamesrv as metrics
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tests.metrics_pages import ask, missing, page_of, until
from tools.harness.ports import unused_address


def test_the_page_has_the_whole_list_and_a_registered_broker_makes_it_ready() -> None:
    address = unused_address()
    with run_mqnamesrv(monitoringAddress=address) as name_server:
        waiting = "NOK - no broker has registered within 45 s of the start yet"
        assert ask(address, "/ready") == (503, waiting)
        with run_mqbroker(
            name_server=name_server.rocketmq, registerBrokerTimeoutMills=60_000
        ) as broker:
            assert until(lambda: ask(address, "/ready") == (200, "OK"))
            page = page_of(address, "mqnamesrv")
            broker.kill()
            assert until(lambda: _gone(address) == 1)
        assert ask(address, "/ready") == (200, "OK")
        assert ask(address, "/ping") == (200, "OK")
    assert not missing(page, metrics.LIST.metrics)
    assert page[metrics.BROKERS.name].value() == page[metrics.CLUSTERS.name].value() == 1
    assert page[metrics.TOPICS.name].value() > 0
    assert page[metrics.REGISTRATIONS.name].value() >= 1


def _gone(address: str) -> float:
    return page_of(address, "mqnamesrv")[metrics.BROKERS_GONE.name].value(reason="connection")
