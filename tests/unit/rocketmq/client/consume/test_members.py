"""Lists of members."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.members import Members
from penstock.rocketmq.client.errors import BadAnswer, NotFound
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.rocketmq.client.memory_hub import MemoryHub

LIST = RequestCode.GET_CONSUMER_LIST_BY_GROUP


def made() -> tuple[MemoryHub, Members]:
    hub = MemoryHub()
    hub.has_topic("T", brokers="ab")
    hub.does(Job(hub.routes.of("T")))
    body = fastjson.dumps({"consumerIdList": ["me", "you"]})
    hub.answers[LIST] = lambda _, request: request.answer(body=body)
    return hub, Members(hub, "G")


def test_the_first_broker_is_asked_and_the_next_when_it_does_not_tell() -> None:
    hub, members = made()
    assert hub.does(Job(members.of(["a", "b"]))) == ["me", "you"]
    hub.lose(hub.connections["ns:9876"], BadAnswer("x"))
    hub.down.add("a:10911")
    hub.lose(hub.connections["a:10911"], BadAnswer("x"))
    assert hub.does(Job(members.of(["a", "b"]))) == ["me", "you"]
    assert [address for address, request in hub.log if request.code == LIST] == [
        "a:10911", "b:10911"
    ]  # fmt: skip


def test_nobody_tells() -> None:
    hub, members = made()
    with pytest.raises(NotFound, match="members of G"):
        hub.does(Job(members.of(["z"])))
    for body in (b"[]", b"{}", b"?"):
        hub.answers[LIST] = lambda _, request, body=body: request.answer(body=body)
        with pytest.raises(BadAnswer, match="no list of members"):
            hub.does(Job(members.of(["a"])))
