"""Requests and replies without a network."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.errors import BadMessage, NoReply
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.request_reply import Requests
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.client.memory_hub import MemoryHub
from tools.harness.rocketmq.records import received

SEND = RequestCode.SEND_MESSAGE_V2


def made() -> tuple[MemoryHub, Requests]:
    hub = MemoryHub()
    hub.has_topic("T", "c_REPLY_TOPIC")
    hub.answers[RequestCode.SEND_REPLY_MESSAGE_V2] = hub.stored
    return hub, Requests(Publisher("PG", hub))


def reply_to(text: str) -> Command:
    fields = {
        "topic": "c_REPLY_TOPIC", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0",
        "bornHost": "/10.0.0.1:5", "storeHost": "?", "storeTimestamp": "2", "properties": text,
    }  # fmt: skip
    return Command(326, 1, fields, b"answer")


def test_a_reply_finds_its_request() -> None:
    hub, requests = made()
    job = Job(requests.request(Message("T", b"x"), 5.0))
    hub.work()
    marks = properties.parse(hub.requests(SEND)[0].text("i"))
    assert (marks["REPLY_TO_CLIENT"], marks["TTL"]) == (hub.client_id, "5000")
    stranger = properties.join({"CORRELATION_ID": "other"})
    hub.receive("a:10911", reply_to(stranger))
    assert not job.is_done
    own = properties.join({"CORRELATION_ID": marks["CORRELATION_ID"]})
    hub.receive("a:10911", reply_to(own))
    assert job.result().body == b"answer"
    assert job.result().born_host == "10.0.0.1:5"


def test_a_request_that_nobody_answers() -> None:
    hub, requests = made()
    with pytest.raises(NoReply, match="<T> OK, but wait reply message timeout, 5 s"):
        hub.does(Job(requests.request(Message("T", b"x"), 5.0)))
    assert not requests._waiting


def test_a_broker_that_is_gone_takes_no_time_of_requests() -> None:
    """Each request would wait for it, and count the time as that of its reply."""
    hub, requests = made()
    hub.has_topic("Other", brokers="z")
    hub.does(Job(hub.routes.of("Other")))
    beat = RequestCode.HEART_BEAT
    hub.answers[beat] = lambda address, request: request.answer() if address[0] == "a" else None
    with pytest.raises(NoReply):
        hub.does(Job(requests.request(Message("T", b"first"), 3.0)))
    hub.passes(10)
    job = Job(requests.request(Message("T", b"x"), 3.0))
    hub.passes(1)
    marks = properties.parse(hub.requests(SEND)[-1].text("i"))
    own = properties.join({"CORRELATION_ID": marks["CORRELATION_ID"]})
    hub.receive("a:10911", reply_to(own))
    assert job.result().body == b"answer"


def test_a_reply_goes_to_the_topic_of_the_cluster() -> None:
    hub, requests = made()
    asked = received(CLUSTER="c", CORRELATION_ID="id", REPLY_TO_CLIENT="me", TTL="5")
    hub.does(Job(requests.reply(asked, b"yes")))
    (sent,) = hub.requests(RequestCode.SEND_REPLY_MESSAGE_V2)
    marks = properties.parse(sent.text("i"))
    assert sent.text("b") == "c_REPLY_TOPIC"
    assert (marks["MSG_TYPE"], marks["CORRELATION_ID"]) == ("reply", "id")
    with pytest.raises(BadMessage, match="no request"):
        hub.does(Job(requests.reply(received(), b"yes")))
