"""Ids of clients and of messages."""

from __future__ import annotations

from penstock.core.units import SECOND
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.identity import UniqueIds, client_id, local_ip
from tests.unit.rocketmq.client.memory_hub import FakeClock


def test_no_two_clients_have_the_same_id() -> None:
    clock = FakeClock()
    config = Config(client_ip="10.0.0.1")
    assert client_id(config, clock) != client_id(config, clock)
    named = Config(client_ip="10.0.0.1", instance_name="me", unit_name="u")
    assert client_id(named, clock) == "10.0.0.1@me@u"


def test_ids_of_messages_have_javas_layout() -> None:
    clock = FakeClock()  # 2023-11-14 22:13:20 UTC
    ids = UniqueIds(clock, "10.0.0.1")
    first, second = ids.next(), ids.next()
    assert len(first) == 32
    assert first.startswith("0A000001")
    since_month = ((13 * 24 + 22) * 3600 + 13 * 60 + 20) * 1000
    assert int(first[20:28], 16) == since_month
    assert int(second[28:], 16) == int(first[28:], 16) + 1
    clock.now += 31 * 24 * 3600 * SECOND
    assert int(ids.next()[20:28], 16) == since_month + 24 * 3600 * 1000  # November has 30 days


def test_ids_of_two_producers_differ() -> None:
    clock = FakeClock()
    assert UniqueIds(clock, "10.0.0.1").next() != UniqueIds(clock, "10.0.0.1").next()
    assert len(UniqueIds(clock, "not-an-address").next()) == 32


def test_this_machine_has_an_address() -> None:
    assert local_ip().count(".") == 3
