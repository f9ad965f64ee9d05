"""Messages on their way to the retry topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.send_back import SendBack
from penstock.rocketmq.client.errors import BrokerError
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub
from tools.harness.rocketmq.records import received


def made(**options: int) -> tuple[MemoryHub, Brokers, SendBack]:
    config = replace(Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1"), **options)  # type: ignore[arg-type]
    hub = MemoryHub(config)
    return hub, Brokers(hub, "T"), SendBack(hub, "G", Publisher("CLIENT_INNER_PRODUCER", hub))


def test_the_broker_that_has_it_is_asked() -> None:
    hub, brokers, back = made()
    hub.does(Job(back.send(received(offset=5, UNIQ_KEY="ID"), 0)))
    (request,) = brokers.sent_back
    assert request.ext == {
        "offset": "1005", "group": "G", "delayLevel": "0", "originMsgId": "ID", "originTopic": "T",
        "unitMode": "false", "maxReconsumeTimes": "16",
    }  # fmt: skip


def test_a_copy_is_sent_when_it_cannot() -> None:
    hub, _, back = made(max_reconsume_times=7)
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _, r: r.answer(1, "no")
    message = received(UNIQ_KEY="ID", TRAN_MSG="true", who="me")
    message.reconsume_times = 2
    hub.does(Job(back.send(message, 0)))
    (copy,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    marks = properties.parse(copy.text("i"))
    assert (copy.text("b"), copy.text("j"), copy.text("l")) == ("%RETRY%G", "3", "8")
    assert marks == {
        "UNIQ_KEY": "ID", "who": "me", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "ID", "DELAY": "5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tried", "level", "is_dead"), [(0, 0, False), (15, 0, False), (16, 0, True), (0, -1, True)]
)
def test_copies_are_dead_letters_when_the_broker_itself_would_make_them(
    tried: int, level: int, is_dead: bool
) -> None:
    hub, _, back = made()
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _, r: r.answer(1, "no")
    message = received(UNIQ_KEY="ID")
    message.reconsume_times = tried
    hub.does(Job(back.send(message, level)))
    (copy,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    assert (int(copy.text("j")) >= int(copy.text("l"))) is is_dead
    assert copy.text("j") == str(tried + 1), "or it would come again for ever"


def test_a_copy_that_is_refused_is_an_error() -> None:
    hub, _, back = made()
    hub.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _, r: r.answer(1, "no")
    hub.answers[RequestCode.SEND_MESSAGE_V2] = lambda _, r: r.answer(13, "no")
    with pytest.raises(BrokerError):
        hub.does(Job(back.send(received(), 0)))
