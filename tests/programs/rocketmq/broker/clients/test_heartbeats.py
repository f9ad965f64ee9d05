"""The cases of `rocketmq/broker/clients/test_heartbeats.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import ONE_WAY
from tests.unit.rocketmq.broker.clients.test_heartbeats import NOTIFY
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient


def notified(client: RawClient) -> None:
    """Waits for the broker to say that the members are others now."""
    command = client.asked(NOTIFY)
    assert command.is_one_way
    assert command.ext == {"consumerGroup": "G"}


def ids(client: RawClient) -> list[str]:
    return list(fastjson.loads(client.ask(38, consumerGroup="G").body)["consumerIdList"])


def test_two_clients_in_a_group(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    one, two = connect(), connect()
    assert one.ask(34, heartbeat("c1", "G")).code == 0
    assert "%RETRY%G" in rocket.services.topics.configs, "made before the answer"
    notified(one)
    assert ids(one) == ["c1"]
    assert two.ask(34, heartbeat("c2", "G")).code == 0
    notified(two)
    notified(one)
    assert ids(one) == ["c1", "c2"]
    two.close()
    notified(one)
    assert ids(one) == ["c1"]
    assert one.ask(35, clientID="c1", consumerGroup="G").code == 0
    assert one.ask(38, consumerGroup="G").code == 1


def test_a_heartbeat_one_way(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    client = connect()
    client.begin(34, heartbeat("c1", "G"), flag_=ONE_WAY)
    notified(client)
    assert ids(client) == ["c1"]
    assert client.requests == [], "and no answer"


def test_the_retry_topic_is_in_the_routes_right_after_the_first_heartbeat(
    connect: Callable[[], RawClient], routes: RawClient
) -> None:
    assert routes.ask(105, topic="%RETRY%G").code == 17
    assert connect().ask(34, heartbeat("c1", "G")).code == 0
    assert routes.ask(105, topic="%RETRY%G").code == 0
