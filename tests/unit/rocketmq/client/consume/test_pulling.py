"""Pulls without a network."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.filters import filter_of
from penstock.rocketmq.client.consume.pulling import Pulled, Puller, PullStatus
from penstock.rocketmq.client.errors import BadAnswer, NotConnected, TopicNotExist
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import MemoryHub

QUEUE = MessageQueue("a", 0, "T")


def made() -> tuple[MemoryHub, Brokers, Puller]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.answers_waiting_pulls = False
    return hub, brokers, Puller(hub, "G")


def pull(hub: MemoryHub, puller: Puller, offset: int = 0, **more: object) -> Pulled:
    wanted = filter_of("a")
    asked = puller.pull(QUEUE, offset, wanted, most=8, timeout_s=5.0, **more)  # type: ignore[arg-type]
    found: Pulled = hub.does(Job(asked))
    return found


def test_what_was_found_is_chosen_by_tags() -> None:
    hub, brokers, puller = made()
    brokers.put(QUEUE, b"x", TAGS="a")
    brokers.put(QUEUE, b"y", TAGS="b")
    found = pull(hub, puller)
    assert [each.body for each in found.messages] == [b"x"]
    assert (found.status, found.next_offset, found.max_offset) == (PullStatus.FOUND, 2, 2)
    assert pull(hub, puller, 2).status is PullStatus.NO_NEW_MSG
    assert pull(hub, puller, 9) == Pulled(PullStatus.OFFSET_ILLEGAL, [], 2, 0, 2)


def test_a_request_says_what_it_wants() -> None:
    hub, _, puller = made()
    pull(hub, puller, commit=3, suspend_s=15.0)
    (request,) = hub.requests(RequestCode.PULL_MESSAGE)
    assert (request.text("sysFlag"), request.text("commitOffset")) == ("7", "3")
    assert (request.text("subscription"), request.text("suspendTimeoutMillis")) == ("a", "15000")


def test_a_broker_may_send_it_to_a_replica() -> None:
    hub, _, puller = made()
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"]["1"] = "a:2"
    answer = hub.answers[RequestCode.PULL_MESSAGE]

    def serve(address: str, request):  # type: ignore[no-untyped-def]
        found = answer(address, request)
        assert found is not None
        assert found.ext is not None
        found.ext["suggestWhichBrokerId"] = "1"
        return found

    hub.answers[RequestCode.PULL_MESSAGE] = serve
    pull(hub, puller)
    pull(hub, puller, commit=3)
    hub.down.add("a:2")
    hub.lose(hub.connections["a:2"], NotConnected("a:2", "gone"))
    with pytest.raises(NotConnected, match="a:2"):
        pull(hub, puller)
    pull(hub, puller)
    asked = [(a, r.text("sysFlag")) for a, r in hub.log if r.code == RequestCode.PULL_MESSAGE]
    assert asked == [("a:10911", "4"), ("a:2", "4"), ("a:10911", "4")]  # replicas keep no offsets


def test_refusals_and_nonsense() -> None:
    hub, _, puller = made()
    hub.answers[RequestCode.PULL_MESSAGE] = lambda _, request: request.answer(17, "gone")
    with pytest.raises(TopicNotExist, match="group G, topic T"):
        pull(hub, puller)
    hub.answers[RequestCode.PULL_MESSAGE] = lambda _, request: request.answer(0)
    with pytest.raises(BadAnswer, match="nextBeginOffset"):
        pull(hub, puller)
    with pytest.raises(NotConnected, match="not exist; mqadmin clusterList"):
        hub.does(Job(puller.pull(QUEUE._replace(brokerName="z"), 0, filter_of("*"), most=1,
                                 timeout_s=1.0)))  # fmt: skip
