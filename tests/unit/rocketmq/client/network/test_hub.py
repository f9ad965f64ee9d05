"""Connections, requests, timers and jobs without a network."""

from __future__ import annotations

import logging

import pytest

from penstock.rocketmq.client.errors import (
    NoPermission,
    NotConnected,
    Stopped,
    TimedOut,
)
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.client.memory_hub import MemoryHub

ASK = RequestCode.GET_MAX_OFFSET


def test_one_connection_serves_all_requests_to_an_address() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = lambda _, request: request.answer()
    first, second = Job(hub.ask("b:1", ASK)), Job(hub.ask("b:1", ASK))
    hub.work()
    assert first.result().is_response
    assert second.result().is_response
    assert list(hub.connections) == ["b:1"]


def test_a_refusal_is_the_exception_of_its_code() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = lambda _, request: request.answer(ResponseCode.NO_PERMISSION, "perm 4")
    with pytest.raises(NoPermission, match=r"b:1 \(topic T\): NO_PERMISSION 16: perm 4"):
        hub.does(Job(hub.demand("b:1", ASK, subject="topic T")))


def test_a_silent_server_is_waited_for_so_long() -> None:
    hub = MemoryHub()
    job = Job(hub.ask("b:1", ASK, seconds=2.0))
    hub.passes(1.9)
    assert not job.is_done
    hub.passes(0.2)
    assert isinstance(job.error, TimedOut)


def test_a_connection_that_leads_nowhere_is_made_again() -> None:
    """The system would send the same bytes for a quarter of an hour, and tell nobody."""
    hub = MemoryHub()
    lost: list[str] = []
    hub.on_lost.append(lost.append)
    early, late = Job(hub.ask("b:1", ASK, seconds=5.0)), Job(hub.ask("b:1", ASK, seconds=60.0))
    hub.work()
    before = hub.connections["b:1"]
    hub.passes(5.1)
    assert isinstance(early.error, TimedOut)
    assert isinstance(late.error, NotConnected)
    assert lost == ["b:1"]
    hub.answers[ASK] = lambda _, request: request.answer()
    assert hub.does(Job(hub.ask("b:1", ASK))).is_response
    assert hub.connections["b:1"] is not before


def test_a_server_that_is_not_there_is_tried_again_with_the_next_request() -> None:
    hub = MemoryHub()
    hub.answers[ASK] = lambda _, request: request.answer()
    hub.down.add("b:1")
    lost: list[str] = []
    hub.on_lost.append(lost.append)
    with pytest.raises(NotConnected, match="refused"):
        hub.does(Job(hub.ask("b:1", ASK)))
    assert lost == ["b:1"]
    hub.down.clear()
    assert hub.does(Job(hub.ask("b:1", ASK))).is_response


def test_requests_of_brokers_are_served_by_code() -> None:
    hub = MemoryHub()
    Job(hub.ask("b:1", ASK))
    hub.work()
    hub.serves[40] = lambda wire, request: request.answer(remark="yes")
    before = len(hub.log)
    hub.receive("b:1", Command(40, 1))
    hub.receive("b:1", Command(999, 2))
    answers = [answer for _, answer in hub.log[before:]]
    assert [answer.code for answer in answers] == [0, ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


def test_a_closed_hub_ends_everything() -> None:
    hub = MemoryHub()
    job = hub.spawn(hub.ask("b:1", ASK), "ask")
    sleeping = hub.spawn(_sleep(hub), "sleep")
    hub.close()
    hub.close()
    assert isinstance(job.error, Stopped)
    assert isinstance(sleeping.error, Stopped)
    assert hub.deadline is None
    with pytest.raises(Stopped):
        hub.does(Job(hub.ask("b:1", ASK)))


async def _sleep(hub: MemoryHub) -> None:
    await hub.sleep(1.0)


def test_a_failure_that_nobody_expects_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        MemoryHub().spawn(fails(), "the job")
    assert "the job failed" in caplog.text


def test_the_vip_address_is_two_ports_lower() -> None:
    from penstock.rocketmq.client.config import Config

    config = Config(namesrv_addr="ns:1", vip_channel_enabled=True)
    assert MemoryHub(config).vip("b:10911") == "b:10909"
    assert MemoryHub().vip("b:10911") == "b:10911"


def test_the_environment_names_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.rocketmq.client.config import Config

    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert MemoryHub(Config()).name_servers.addresses == ["a:1", "b:2"]
