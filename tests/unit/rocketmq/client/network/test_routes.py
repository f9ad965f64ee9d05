"""Routes as they are read, kept and asked for again."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.errors import BadAnswer, NoRoute
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.network.routes import Route
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def test_queues_are_in_order_and_only_masters_are_written() -> None:
    route = Route.parse(
        "T",
        fastjson.dumps(
            {
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
        ),
    )
    assert [(each.brokerName, each.queueId) for each in route.readable] == [
        ("a", 0), ("a", 1), ("b", 0)
    ]  # fmt: skip
    assert route.writable == (MessageQueue("a", 0, "T"),)


def test_an_order_topic_names_its_queues() -> None:
    body = fastjson.dumps(
        {
            "orderTopicConf": "a:1",
            "brokerDatas": [{"brokerName": "a", "brokerAddrs": {"0": "a:1"}}],
            "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
        }
    )
    assert Route.parse("T", body).writable == (MessageQueue("a", 0, "T"),)


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
        hub.does(Job(hub.routes.of(topic)))
    (data,) = hub.known["T"]["brokerDatas"]
    data["brokerAddrs"] = {"1": "a:10921"}  # its master is gone
    hub.does(Job(hub.routes.ask("T")))
    assert (hub.routes.master("a"), hub.routes.reader("a")) == (None, "a:10921")
    data["brokerAddrs"] = {"0": "a:10921"}  # the slave takes its place
    hub.does(Job(hub.routes.ask("T")))
    assert hub.routes.master("a") == "a:10921"
    hub.does(Job(hub.routes.ask("Other")))  # from a name server that knows better, and nothing new
    assert hub.routes.master("a") == "a:10911"


def test_a_topic_that_is_not_there_gets_the_queues_of_the_example() -> None:
    hub = MemoryHub()
    hub.has_topic("TBW102", queues=8)
    route = hub.does(Job(hub.routes.to_send("New")))
    assert route.writable == tuple(MessageQueue("a", n, "New") for n in range(4))


@pytest.mark.parametrize(
    ("clusters", "words"),
    [(b'{"brokerAddrTable":{},"clusterAddrTable":{}}', "no broker is registered at the name server "
      f"{NAME_SERVER}: start one"),
     (b'{"brokerAddrTable":{"a":{}}}', "no broker creates topics"), (b"", "no broker creates"),
     (b"[]", "no broker creates topics"), (b"{", "no broker creates topics")],
)  # fmt: skip
def test_the_reason_why_there_is_no_route(clusters: bytes, words: str) -> None:
    hub = MemoryHub()
    hub.has_topic()
    hub.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda _, r: r.answer(body=clusters)
    with pytest.raises(NoRoute, match=words):
        hub.does(Job(hub.routes.to_send("New")))


def test_a_topic_that_nobody_creates_or_writes_has_no_route() -> None:
    hub = MemoryHub()
    clusters = b'{"brokerAddrTable":{"a":{}}}'
    hub.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda _, r: r.answer(body=clusters)
    hub.has_topic("ReadOnly", perm=4)
    with pytest.raises(NoRoute, match="updateTopic"):
        hub.does(Job(hub.routes.to_send("New")))
    with pytest.raises(NoRoute, match="lets it be written"):
        hub.does(Job(hub.routes.to_send("ReadOnly")))


def test_routes_are_asked_for_again_and_a_doubtful_one_soon() -> None:
    hub = MemoryHub()
    hub.has_topic("T")
    hub.begin()
    hub.does(Job(hub.routes.of("T")))
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


def test_a_replica_is_read_when_the_master_is_gone() -> None:
    hub = MemoryHub()
    hub.has_topic("T")
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"] = {"1": "a:2"}
    hub.does(Job(hub.routes.of("T")))
    assert hub.routes.reader("a") == "a:2"
    assert hub.routes.master("a") is None
