from __future__ import annotations

from penstock.spark.access import client, secured
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.broker_log import BrokerLog
from tests.unit.spark.rocketmq.scripted_broker import ScriptedBroker


def test_a_connection_is_kept_for_a_broker(broker: ScriptedBroker) -> None:
    access = BrokerAccess(timeout_s=60.0, group="g")
    log = client(broker.address, access)
    assert isinstance(log, BrokerLog)
    assert client(broker.address, access) is log
    broker.queue("t")
    assert log.topics() == ["t"]
    assert log.topics() == ["t"]
    assert broker.connections == 1


def test_tls_is_on_the_same_port() -> None:
    access = BrokerAccess(tls=True, same_port=True, verify=False)
    assert secured("127.0.0.1:10911", access) == "127.0.0.1:10911"
