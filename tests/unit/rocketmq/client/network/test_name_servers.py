"""Several name servers, changing ones, and a page that lists them."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import NoNameServer
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.network.name_servers import FETCH_EVERY_S, listed
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.client.memory_hub import MemoryHub

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
PAGE = "http://page/nsaddr"


def hub_of(**options: str) -> MemoryHub:
    hub = MemoryHub(Config(**options))  # type: ignore[arg-type]
    hub.answers[ROUTE] = lambda address, request: request.answer(remark=address)
    return hub


def ask(hub: MemoryHub) -> str | None:
    answer: Command = hub.does(Job(hub.name_servers.ask(ROUTE, {"topic": "T"})))
    return answer.remark


def test_the_next_one_is_asked_and_stays_first() -> None:
    hub = hub_of(namesrv_addr="a:1;b:1;c:1")
    hub.down.add("a:1")
    assert ask(hub) == "b:1"
    assert hub.name_servers.addresses == ["b:1", "a:1", "c:1"]


def test_none_answers() -> None:
    hub = hub_of(namesrv_addr="a:1;b:1")
    hub.down |= {"a:1", "b:1"}
    with pytest.raises(NoNameServer, match=r"a:1: .*refused; b:1: .*refused"):
        ask(hub)


def test_the_list_can_be_changed() -> None:
    hub = hub_of(namesrv_addr="a:1")
    hub.name_servers.set("x:1;y:1")
    assert ask(hub) == "x:1"
    hub.name_servers.set("y:1;x:1")  # the same ones
    assert hub.name_servers.addresses == ["x:1", "y:1"]


def test_a_page_lists_them_and_is_read_again() -> None:
    hub = hub_of(namesrv_url=PAGE)
    with pytest.raises(NoNameServer, match=PAGE):
        ask(hub)
    hub.pages[PAGE] = b"a:1;b:1\n"
    hub.begin()
    assert ask(hub) == "a:1"
    hub.pages[PAGE] = b"c:1"
    hub.passes(FETCH_EVERY_S + 1)
    assert ask(hub) == "c:1"
    hub.pages[PAGE] = b"no address"
    hub.passes(FETCH_EVERY_S + 1)
    assert ask(hub) == "c:1"


def test_addresses_are_read_with_care() -> None:
    assert listed(" a:1 ; b:2,a:1;") == ["a:1", "b:2"]
    with pytest.raises(ConfigError, match="name server a"):
        listed("a")
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        MemoryHub(Config())
