"""Sending without a network: retries, time-outs, brokers that fail."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import (
    BadMessage,
    MessageIllegal,
    NoPermission,
    NotConnected,
    SendFailed,
    Stopped,
    SystemBusy,
    TimedOut,
)
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.sending import SendStatus
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub

SEND, RECALL = RequestCode.SEND_MESSAGE_V2, RequestCode.RECALL_MESSAGE
T = Message("T", b"x")


def made(**options: object) -> tuple[MemoryHub, Publisher]:
    config = replace(Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1"), **options)  # type: ignore[arg-type]
    hub = MemoryHub(config)
    hub.has_topic("T", brokers="ab")
    return hub, Publisher("PG", hub)


def refuses(code: ResponseCode, only: str = "") -> MemoryHub:
    hub, _ = made()

    def serve(address: str, request: Command) -> Command:
        if only and not address.startswith(only):
            return hub.stored(address, request)
        return request.answer(code, "no")

    hub.answers[SEND] = serve
    return hub


def brokers(hub: MemoryHub) -> list[str]:
    return [address[0] for address, request in hub.log if request.code == SEND]


def test_a_refusal_goes_on_to_another_broker() -> None:
    hub = refuses(ResponseCode.SYSTEM_BUSY, only="a")
    publisher = Publisher("PG", hub)
    for _ in range(4):
        assert hub.does(Job(publisher.send(T))).queue.brokerName == "b"
    tried = brokers(hub)
    assert "aa" not in "".join(tried)


def test_nothing_is_tried_past_its_limit() -> None:
    hub = refuses(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(SendFailed) as failed:
        hub.does(Job(Publisher("PG", hub).send(T)))
    assert [type(error) for error in failed.value.errors] == [SystemBusy] * 3
    assert len(brokers(hub)) == 3


def test_a_refusal_that_all_brokers_would_give_is_raised_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = refuses(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(MessageIllegal):
        hub.does(Job(Publisher("PG", hub).send(T)))
    assert len(brokers(hub)) == 1
    assert "resend at once" not in caplog.text
    assert "sendKernelImpl exception: " in caplog.text


def test_a_broker_that_denies_is_not_asked_again() -> None:
    hub = refuses(ResponseCode.NO_PERMISSION)
    with pytest.raises(SendFailed, match="updateTopicPerm") as failed:
        hub.does(Job(Publisher("PG", hub).send(T)))
    assert [type(error) for error in failed.value.errors] == [NoPermission] * 2
    assert sorted(brokers(hub)) == ["a", "b"]


def test_a_broker_that_allows_it_is_found() -> None:
    hub = refuses(ResponseCode.NO_PERMISSION, only="a")
    publisher = Publisher("PG", hub)
    for _ in range(4):
        assert hub.does(Job(publisher.send(T))).queue.brokerName == "b"


def test_a_queue_that_was_chosen_is_the_only_one_tried() -> None:
    hub = refuses(ResponseCode.SYSTEM_BUSY)
    publisher = Publisher("PG", hub)
    with pytest.raises(SystemBusy):
        hub.does(Job(publisher.send(T, lambda every: every[0])))
    with pytest.raises(SystemBusy):
        hub.does(Job(publisher.send(replace(T, sharding_key="k"))))
    assert len(brokers(hub)) == 2


def test_a_silent_broker_takes_the_time_of_all_tries() -> None:
    hub, publisher = made()
    hub.answers[SEND] = lambda _, request: None
    with pytest.raises(TimedOut, match=r"no answer within 3 s; .*send_msg_timeout"):
        hub.does(Job(publisher.send(T)))
    assert len(brokers(hub)) == 1


def test_what_was_stored_but_not_safely_is_told_and_sent_again_if_that_is_wished() -> None:
    for wished, count in ((False, 1), (True, 3)):
        hub, publisher = made(retry_another_broker_when_not_store_ok=wished)
        fields = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
        hub.answers[SEND] = lambda _, request, fields=fields: request.answer(
            ResponseCode.FLUSH_DISK_TIMEOUT, ext=fields
        )
        found = hub.does(Job(publisher.send(T)))
        assert found.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert len(brokers(hub)) == count


def test_a_broker_that_failed_rests() -> None:
    hub, publisher = made(send_latency_fault_enable=True)
    hub.down.add("a:10911")
    for _ in range(6):
        hub.does(Job(publisher.send(T)))
    hub.down.clear()
    for _ in range(6):
        hub.does(Job(publisher.send(T)))
    assert brokers(hub) == ["b"] * 12


def test_sends_under_way_are_counted() -> None:
    hub, publisher = made(max_pending=2)
    first, second = publisher.send_soon(T), publisher.send_soon(T)
    assert publisher.is_full
    waits = publisher.settled()
    assert not waits.is_done
    hub.does(first)
    hub.does(second)
    assert waits.is_done
    assert publisher.pending == 0
    assert publisher.settled().is_done


def test_bytes_under_way_are_counted() -> None:
    hub, publisher = made(max_pending_bytes=10)
    sending = publisher.send_soon(replace(T, body=b"x" * 10))
    assert publisher.is_full
    hub.does(sending)
    assert not publisher.is_full


def test_a_one_way_send_asks_for_no_answer() -> None:
    hub, publisher = made()
    hub.does(Job(publisher.send_one_way(T)))
    hub.work()
    (request,) = hub.requests(SEND)
    assert request.is_one_way


def test_a_producer_of_one_way_sends_follows_its_brokers() -> None:
    hub, publisher = made()
    hub.does(Job(publisher.send_one_way(T, lambda every: every[0])))
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"] = {"0": "promoted:10911"}
    hub.passes(31)
    hub.does(Job(publisher.send_one_way(T, lambda every: every[0])))
    hub.work()
    sent = [address for address, request in hub.log if request.code == SEND]
    assert sent == ["a:10911", "promoted:10911"]


def test_a_one_way_send_of_a_closed_producer_is_no_silent_loss() -> None:
    hub, publisher = made()
    hub.does(Job(publisher.send_one_way(T)))
    hub.close()
    with pytest.raises(Stopped):
        hub.does(Job(publisher.send_one_way(T)))


def test_a_route_that_failed_is_asked_for_again() -> None:
    hub, publisher = made()
    hub.down |= {"a:10911", "b:10911"}
    with pytest.raises(SendFailed):
        hub.does(Job(publisher.send(T)))
    before = len(hub.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    hub.passes(2)
    assert len(hub.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == before + 1


def test_queues_and_leaving() -> None:
    hub, publisher = made()
    assert len(hub.does(Job(publisher.queues("T")))) == 4
    hub.does(Job(publisher.heartbeats.beat()))
    hub.does(Job(publisher.leave()))
    assert len(hub.requests(RequestCode.UNREGISTER_CLIENT)) == 2
    hub.close()
    with pytest.raises(Stopped):
        hub.does(Job(publisher.send(T)))


def test_a_thousand_failures_are_a_hundred_lines(caplog: pytest.LogCaptureFixture) -> None:
    hub, publisher = made()
    hub.down |= {"a:10911", "b:10911"}
    sending = [publisher.send_soon(T) for _ in range(500)]
    with pytest.raises(SendFailed):
        hub.does(sending[-1])
    told = [each for each in caplog.records if "sendKernelImpl" in each.getMessage()]
    assert len(told) == 100


def test_a_recall_goes_to_the_broker_that_gave_the_handle() -> None:
    hub, publisher = made(namespace="ns")
    hub.has_topic("ns%T", brokers="ab")
    hub.answers[RECALL] = lambda _, request: request.answer(ext={"msgId": "id"})
    handle = base64.urlsafe_b64encode(b"v1 ns%T b 5 id").decode()
    assert hub.does(Job(publisher.recall("T", handle))) == "id"
    ((address, request),) = [each for each in hub.log if each[1].code == RECALL]
    assert (address, request.text("topic")) == ("b:10911", "ns%T")
    assert request.text("recallHandle") == handle
    hub.answers[RECALL] = lambda _, r: r.answer(ResponseCode.NO_PERMISSION, "forbidden")
    with pytest.raises(NoPermission, match="forbidden"):
        hub.does(Job(publisher.recall("T", handle)))
    elsewhere = base64.urlsafe_b64encode(b"v1 ns%T c 5 id").decode()
    for wrong, error in (("", BadMessage), ("?", BadMessage), (elsewhere, NotConnected)):
        with pytest.raises(error):
            hub.does(Job(publisher.recall("T", wrong)))


def test_a_send_gives_the_handle_for_a_recall() -> None:
    hub, publisher = made()
    hub.answers[SEND] = lambda address, request: request.answer(
        ext={**(hub.stored(address, request).ext or {}), "recallHandle": "h"}
    )
    assert hub.does(Job(publisher.send(T))).recall_handle == "h"
