"""Name servers, and routes as they are read, kept and asked for again."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, NoNameServer, NoRoute
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.network.name_servers import FETCH_EVERY_S, listed
from penstock.rocketmq.client.network.routes import Route
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub, answering

# --- name servers ---------------------------------------------------------------------------------

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
PAGE = "http://page/nsaddr"


def hub_of(**options: str) -> MemoryHub:
    hub = MemoryHub(Config(**options))  # type: ignore[arg-type]
    hub.answers[ROUTE] = lambda address, request: request.answer(remark=address)
    return hub


def ask(hub: MemoryHub) -> str | None:
    answer: Command = hub.does(hub.name_servers.ask(ROUTE, {"topic": "T"}))
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


# --- routes ---------------------------------------------------------------------------------------


def test_queues_are_in_order_and_only_masters_are_written() -> None:
    route = {
        "brokerDatas": [
            {"brokerName": "b", "brokerAddrs": {"1": "b:2"}},
            {"brokerName": "a", "brokerAddrs": {"0": "a:1", "1": "a:2"}},
        ],
        "queueDatas": [
            {"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1},
            {"brokerName": "a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 1},
            {"brokerName": "c", "perm": 0, "readQueueNums": 2, "writeQueueNums": 1},
        ],
    }
    found = Route.parse("T", fastjson.dumps(route))
    queues = [(each.brokerName, each.queueId) for each in found.readable]
    assert queues == [("a", 0), ("a", 1), ("b", 0)]
    assert found.writable == (MessageQueue("a", 0, "T"),)


def test_an_order_topic_names_its_queues() -> None:
    route = {
        "orderTopicConf": "a:1",
        "brokerDatas": [{"brokerName": "a", "brokerAddrs": {"0": "a:1"}}],
        "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
    }
    found = Route.parse("T", fastjson.dumps(route))
    assert found.writable == (MessageQueue("a", 0, "T"),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"queueDatas":[{}]}',
        b'{"brokerDatas":5}',
        b'{"brokerDatas":[{"brokerName":"a","brokerAddrs":{"x":"y"}}]}',
    ],
)
def test_nonsense_is_no_route(body: bytes) -> None:
    with pytest.raises(BadAnswer, match="route of T"):
        Route.parse("T", body)


def test_a_route_is_asked_for_once() -> None:
    hub = MemoryHub()
    hub.has_topic("T")
    first, second = Job(hub.routes.of("T")), Job(hub.routes.of("T"))
    hub.work()
    assert first.result() is second.result()
    Job(hub.routes.of("T"))
    assert len(hub.requests(ROUTE)) == 1
    assert hub.routes.master("a") == "a:10911"
    assert hub.routes.master("b") is None


def test_the_newest_route_says_where_a_broker_is() -> None:
    hub = MemoryHub()
    hub.has_topic("T", "Other")
    for topic in ("T", "Other"):
        hub.does(hub.routes.of(topic))
    (data,) = hub.known["T"]["brokerDatas"]
    data["brokerAddrs"] = {"1": "a:10921"}  # its master is gone
    hub.does(hub.routes.ask("T"))
    assert (hub.routes.master("a"), hub.routes.reader("a")) == (None, "a:10921")
    data["brokerAddrs"] = {"0": "a:10921"}  # the slave takes its place
    hub.does(hub.routes.ask("T"))
    assert hub.routes.master("a") == "a:10921"
    hub.does(hub.routes.ask("Other"))  # from a name server that knows better, and nothing new
    assert hub.routes.master("a") == "a:10911"


def test_a_topic_that_is_not_there_gets_the_queues_of_the_example() -> None:
    hub = MemoryHub()
    hub.has_topic("TBW102", queues=8)
    route = hub.does(hub.routes.to_send("New"))
    assert route.writable == tuple(MessageQueue("a", n, "New") for n in range(4))


@pytest.mark.parametrize(
    ("clusters", "words"),
    [(b'{"brokerAddrTable":{},"clusterAddrTable":{}}', "no broker is registered at the name server "
      f"{NAME_SERVER}: start one"),
     (b'{"brokerAddrTable":{"a":{}}}', "no broker creates topics.*updateTopic"),
     (b"", "no broker creates topics"),
     (b"[]", "no broker creates topics"), (b"{", "no broker creates topics")],
)  # fmt: skip
def test_the_reason_why_there_is_no_route(clusters: bytes, words: str) -> None:
    hub = MemoryHub()
    hub.has_topic()
    hub.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = answering(clusters)
    with pytest.raises(NoRoute, match=words):
        hub.does(hub.routes.to_send("New"))


def test_a_topic_that_nobody_may_write_has_no_route() -> None:
    hub = MemoryHub()
    hub.has_topic("ReadOnly", perm=4)
    with pytest.raises(NoRoute, match="lets it be written"):
        hub.does(hub.routes.to_send("ReadOnly"))


def test_routes_are_asked_for_again_and_a_doubtful_one_soon() -> None:
    hub = MemoryHub()
    hub.has_topic("T")
    hub.begin()
    hub.does(hub.routes.of("T"))
    hub.has_topic("T", brokers="ab")
    hub.passes(2)
    assert list(hub.routes.brokers) == ["a"]
    hub.routes.doubt("T")
    hub.routes.doubt("T")
    hub.passes(2)
    assert sorted(hub.routes.brokers) == ["a", "b"]
    hub.has_topic("T", brokers="b")
    hub.passes(31)
    assert list(hub.routes.brokers) == ["b"]
    del hub.known["T"]
    hub.passes(31)
    assert list(hub.routes.brokers) == ["b"]  # better an old route than none
