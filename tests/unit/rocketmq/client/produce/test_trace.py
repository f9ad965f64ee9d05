"""Traces in the form of Java's."""

from __future__ import annotations

import zlib

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher, tracer
from penstock.rocketmq.client.produce.trace import HELD_MAX
from penstock.rocketmq.client.produce.transactions import Transactions, TransactionState
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub
from tools.harness.rocketmq.records import received, stored

TOPIC = "RMQ_SYS_TRACE_TOPIC"


def made() -> MemoryHub:
    hub = MemoryHub(Config(namesrv_addr=NAME_SERVER, enable_msg_trace=True, client_ip="10.0.0.1"))
    hub.has_topic("T", TOPIC)
    return hub


def traces(hub: MemoryHub) -> list[list[str]]:
    found = []
    for request in hub.requests(RequestCode.SEND_MESSAGE_V2):
        if request.text("b") == TOPIC:
            found += [each.split("\x01") for each in request.body.decode().split("\x02") if each]
    return found


def test_a_send_is_traced_half_a_second_later() -> None:
    hub = made()
    publisher = Publisher("PG", hub)
    sent = hub.does(Job(publisher.send(Message("T", b"abc", tags="a", keys="k"))))
    hub.passes(1)
    (fields,) = traces(hub)
    assert fields[0] == "Pub"
    assert fields[2:10] == ["DefaultRegion", "PG", "T", sent.id, "a", "k", "a:10911", "3"]
    assert fields[11:] == ["0", sent.offset_id, "true"]
    (request,) = [r for r in hub.requests(RequestCode.SEND_MESSAGE_V2) if r.text("b") == TOPIC]
    assert properties.parse(request.text("i"))["KEYS"] == f"{sent.id} k"


def test_handling_a_message_is_traced_before_and_after() -> None:
    hub = made()
    made_tracer, message = tracer(hub), received(UNIQ_KEY="ID", KEYS="k")
    made_tracer.before("G", message, "R")
    made_tracer.after("G", message, "R", 0.25, succeeded=False)
    hub.passes(1)
    before, after = traces(hub)
    assert before[0] == "SubBefore"
    assert before[2:] == ["DefaultRegion", "G", "R", "ID", "0", "k"]
    assert after[:7] == ["SubAfter", "R", "ID", "250", "false", "k", "4"]
    assert after[8] == "G"


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (TransactionState.COMMIT, "COMMIT_MESSAGE"),
        (TransactionState.ROLLBACK, "ROLLBACK_MESSAGE"),
        (TransactionState.UNKNOWN, "UNKNOW"),
    ],
)
def test_the_end_of_a_transaction_is_traced(end: TransactionState, word: str) -> None:
    hub = made()
    transactions = Transactions(Publisher("PG", hub), lambda _: end)
    message = Message("T", b"abc", tags="a", keys=["k", "l"])
    sent = hub.does(Job(transactions.send(message, lambda _: end))).sent
    hub.passes(1)
    half, ended = traces(hub)
    assert (half[0], half[11]) == ("Pub", "1")
    assert ended[0] == "EndTransaction"
    assert ended[2:] == [
        "DefaultRegion", "PG", "T", sent.id, "a", "k l", "a:10911", "2", sent.id, word, "false",
    ]  # fmt: skip


def test_the_answer_to_a_broker_that_asks_is_traced() -> None:
    hub = made()
    transactions = Transactions(Publisher("PG", hub), lambda _: TransactionState.ROLLBACK)
    hub.does(Job(transactions.send(Message("T", b"x"), lambda _: TransactionState.UNKNOWN)))
    fields = {"tranStateTableOffset": "7", "commitLogOffset": "8"}
    record = encode(stored(UNIQ_KEY="ID", KEYS="k", MSG_REGION="north"))
    hub.receive("a:10911", Command(39, 1, fields, record, flag=ONE_WAY))
    hub.passes(1)
    asked = traces(hub)[-1]
    assert (asked[2], asked[5], asked[11:]) == ("north", "ID", ["ROLLBACK_MESSAGE", "true"])


def test_traces_that_nobody_takes_are_dropped() -> None:
    hub = made()
    hub.down.add("a:10911")
    tracing = tracer(hub)
    for _ in range(2 * HELD_MAX):
        tracing._held.append(("x", "y")) if len(tracing._held) < HELD_MAX else None
    tracing.before("G", received(), "R")
    assert len(tracing._held) <= HELD_MAX
    hub.passes(5)
    assert traces(hub) == []


def test_traces_of_large_batches_are_sent_in_messages_that_brokers_take() -> None:
    config = Config(
        namesrv_addr=NAME_SERVER, enable_msg_trace=True, client_ip="10.0.0.1",
        max_message_size=40_000, compress_msg_body_over_howmuch=1 << 20,
    )  # fmt: skip
    hub = MemoryHub(config)
    hub.has_topic("T", TOPIC)
    publisher = Publisher("PG", hub)
    batch = [Message("T", b"x", keys="\u9375" * 20) for _ in range(100)]
    for _ in range(20):
        hub.does(Job(publisher.send_batch(batch)))
    hub.passes(1)
    assert len(traces(hub)) == 20
    sent = [r for r in hub.requests(RequestCode.SEND_MESSAGE_V2) if r.text("b") == TOPIC]
    assert len(sent) > 1


def test_long_keys_of_traces_are_cut() -> None:
    hub = made()
    publisher = Publisher("PG", hub)
    for number in range(50):
        hub.does(Job(publisher.send(Message("T", b"x", keys="\u9375" * 300 + str(number)))))
    hub.passes(1)
    (sent,) = [r for r in hub.requests(RequestCode.SEND_MESSAGE_V2) if r.text("b") == TOPIC]
    assert zlib.decompress(sent.body).count(b"\x02") == 50
