"""The cases of `rocketmq/broker/test_services.py` that need a port or a process."""

from __future__ import annotations

from penstock.rocketmq.broker.daemon import RocketBroker


def test_a_broker_knows_the_port_that_the_system_has_chosen(rocket: RocketBroker) -> None:
    assert rocket.services.address.port == rocket.port > 0
    assert rocket.services.store.address == rocket.services.address
