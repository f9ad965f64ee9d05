"""Half messages and how they end, requests and replies, and traces, without a network."""

from __future__ import annotations

import zlib

import pytest

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadMessage, NoReply, NotConnected
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher, tracer
from penstock.rocketmq.client.produce.request_reply import Requests
from penstock.rocketmq.client.produce.trace import HELD_MAX
from penstock.rocketmq.client.produce.transactions import Check, Transactions, TransactionState
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.memory_hub import MemoryHub
from tools.harness.rocketmq.records import received, stored

END = RequestCode.END_TRANSACTION
SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN,
)  # fmt: skip


def made(check: Check | None = lambda _: COMMIT) -> tuple[MemoryHub, Transactions]:
    hub = MemoryHub()
    hub.has_topic("T")
    return hub, Transactions(Publisher("PG", hub), check)


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, UNKNOWN])
def test_the_end_is_told(state: TransactionState) -> None:
    hub, transactions = made()
    found = hub.does(transactions.send(Message("T", b"x", delay_level=3), lambda _: state))
    hub.work()
    assert found.state is state
    (half,) = hub.requests(SEND)
    marks = properties.parse(half.text("i"))
    assert (marks["TRAN_MSG"], marks["PGROUP"], half.text("f")) == ("true", "PG", "4")
    assert "DELAY" not in marks
    (end,) = hub.requests(END)
    assert end.is_one_way
    names = ("commitOrRollback", "tranStateTableOffset", "commitLogOffset", "msgId")
    assert [end.text(name) for name in names] == [str(int(state)), "5", "0", found.sent.id]


def test_what_was_not_stored_safely_is_rolled_back() -> None:
    hub, transactions = made()
    ok = hub.stored
    hub.answers[SEND] = lambda a, r: r.answer(ResponseCode.FLUSH_DISK_TIMEOUT, ext=ok(a, r).ext)
    done: list[Message] = []
    found = hub.does(transactions.send(Message("T", b"x"), done.append))
    assert (found.state, done) == (ROLLBACK, [])


def test_a_broker_that_asks_is_answered() -> None:
    asked: list[Received] = []

    def check(message: Received) -> TransactionState:
        asked.append(message)
        if message.body == b"broken":
            raise ValueError
        if message.body == b"alone":
            raise NotConnected("db:9876", "the look-up has failed")  # a client of the program's
        return ROLLBACK

    hub, transactions = made(check)
    hub.does(transactions.send(Message("T", b"x"), lambda _: COMMIT))
    hub.log.clear()
    fields = {"tranStateTableOffset": "7", "commitLogOffset": "8"}
    for body in (b"x", b"broken", b"alone"):
        record = encode(stored(body=body, UNIQ_KEY="ID"))
        hub.receive("a:10911", Command(39, 1, dict(fields), record, flag=ONE_WAY))
    first, *others = hub.requests(END)
    assert first.text("commitOrRollback") == "12"
    assert [each.text("commitOrRollback") for each in others] == ["0", "0"]
    assert first.text("fromTransactionCheck") == "true"
    assert (first.text("tranStateTableOffset"), first.text("commitLogOffset")) == ("7", "8")
    assert [each.body for each in asked] == [b"x", b"broken", b"alone"]


def test_without_a_check_there_are_no_transactions() -> None:
    hub, transactions = made(None)
    with pytest.raises(BadMessage, match="on_check"):
        hub.does(transactions.send(Message("T", b"x"), lambda _: COMMIT))


# --- requests and replies -------------------------------------------------------------------------


def asking() -> tuple[MemoryHub, Requests]:
    hub = MemoryHub()
    hub.has_topic("T", "c_REPLY_TOPIC")
    hub.answers[RequestCode.SEND_REPLY_MESSAGE_V2] = hub.stored
    return hub, Requests(Publisher("PG", hub))


def replies(hub: MemoryHub, correlation: str) -> None:
    """A broker passes a reply on."""
    text = properties.join({"CORRELATION_ID": correlation})
    fields = {
        "topic": "c_REPLY_TOPIC", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0",
        "bornHost": "/10.0.0.1:5", "storeHost": "?", "storeTimestamp": "2", "properties": text,
    }  # fmt: skip
    hub.receive("a:10911", Command(326, 1, fields, b"answer"))


def test_a_reply_finds_its_request() -> None:
    hub, requests = asking()
    job = Job(requests.request(Message("T", b"x"), 5.0))
    hub.work()
    marks = properties.parse(hub.requests(SEND)[0].text("i"))
    assert (marks["REPLY_TO_CLIENT"], marks["TTL"]) == (hub.client_id, "5000")
    replies(hub, "other")
    assert not job.is_done
    replies(hub, marks["CORRELATION_ID"])
    assert job.result().body == b"answer"
    assert job.result().born_host == "10.0.0.1:5"


def test_a_request_that_nobody_answers() -> None:
    hub, requests = asking()
    with pytest.raises(NoReply, match="<T> OK, but wait reply message timeout, 5 s"):
        hub.does(requests.request(Message("T", b"x"), 5.0))
    assert not requests._waiting


def test_a_broker_that_is_gone_takes_no_time_of_requests() -> None:
    """Each request would wait for it, and count the time as that of its reply."""
    hub, requests = asking()
    hub.has_topic("Other", brokers="z")
    hub.does(hub.routes.of("Other"))
    beat = RequestCode.HEART_BEAT
    hub.answers[beat] = lambda address, request: request.answer() if address[0] == "a" else None
    with pytest.raises(NoReply):
        hub.does(requests.request(Message("T", b"first"), 3.0))
    hub.passes(10)
    job = Job(requests.request(Message("T", b"x"), 3.0))
    hub.passes(1)
    marks = properties.parse(hub.requests(SEND)[-1].text("i"))
    replies(hub, marks["CORRELATION_ID"])
    assert job.result().body == b"answer"


def test_a_reply_goes_to_the_topic_of_the_cluster() -> None:
    hub, requests = asking()
    asked = received(CLUSTER="c", CORRELATION_ID="id", REPLY_TO_CLIENT="me", TTL="5")
    hub.does(requests.reply(asked, b"yes"))
    (sent,) = hub.requests(RequestCode.SEND_REPLY_MESSAGE_V2)
    marks = properties.parse(sent.text("i"))
    assert sent.text("b") == "c_REPLY_TOPIC"
    assert (marks["MSG_TYPE"], marks["CORRELATION_ID"]) == ("reply", "id")
    with pytest.raises(BadMessage, match="not a request"):
        hub.does(requests.reply(received(), b"yes"))


# --- traces in the form of Java's -----------------------------------------------------------------

TOPIC = "RMQ_SYS_TRACE_TOPIC"


def tracing(**options: int) -> MemoryHub:
    hub = MemoryHub(enable_msg_trace=True, **options)
    hub.has_topic("T", TOPIC)
    return hub


def sent_traces(hub: MemoryHub) -> list[Command]:
    """The messages with traces."""
    return [each for each in hub.requests(SEND) if each.text("b") == TOPIC]


def traces(hub: MemoryHub) -> list[list[str]]:
    """The fields of each entry."""
    bodies = b"".join(each.body for each in sent_traces(hub)).decode()
    return [each.split("\x01") for each in bodies.split("\x02") if each]


def test_a_send_is_traced_half_a_second_later() -> None:
    hub = tracing()
    publisher = Publisher("PG", hub)
    sent = hub.does(publisher.send(Message("T", b"abc", tags="a", keys="k")))
    hub.passes(1)
    (fields,) = traces(hub)
    assert fields[0] == "Pub"
    assert fields[2:10] == ["DefaultRegion", "PG", "T", sent.id, "a", "k", "a:10911", "3"]
    assert fields[11:] == ["0", sent.offset_id, "true"]
    (request,) = sent_traces(hub)
    assert properties.parse(request.text("i"))["KEYS"] == f"{sent.id} k"


def test_handling_a_message_is_traced_before_and_after() -> None:
    hub = tracing()
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
    [(COMMIT, "COMMIT_MESSAGE"), (ROLLBACK, "ROLLBACK_MESSAGE"), (UNKNOWN, "UNKNOW")],
)
def test_the_end_of_a_transaction_is_traced(end: TransactionState, word: str) -> None:
    hub = tracing()
    transactions = Transactions(Publisher("PG", hub), lambda _: end)
    message = Message("T", b"abc", tags="a", keys=["k", "l"])
    sent = hub.does(transactions.send(message, lambda _: end)).sent
    hub.passes(1)
    half, ended = traces(hub)
    assert (half[0], half[11]) == ("Pub", "1")
    assert ended[0] == "EndTransaction"
    assert ended[2:] == [
        "DefaultRegion", "PG", "T", sent.id, "a", "k l", "a:10911", "2", sent.id, word, "false",
    ]  # fmt: skip


def test_the_answer_to_a_broker_that_asks_is_traced() -> None:
    hub = tracing()
    transactions = Transactions(Publisher("PG", hub), lambda _: ROLLBACK)
    hub.does(transactions.send(Message("T", b"x"), lambda _: UNKNOWN))
    fields = {"tranStateTableOffset": "7", "commitLogOffset": "8"}
    record = encode(stored(UNIQ_KEY="ID", KEYS="k", MSG_REGION="north"))
    hub.receive("a:10911", Command(39, 1, fields, record, flag=ONE_WAY))
    hub.passes(1)
    asked = traces(hub)[-1]
    assert (asked[2], asked[5], asked[11:]) == ("north", "ID", ["ROLLBACK_MESSAGE", "true"])


def test_traces_that_nobody_takes_are_dropped() -> None:
    hub = tracing()
    hub.down.add("a:10911")
    held = tracer(hub)
    held._held.extend([("x", "y")] * HELD_MAX)
    held.before("G", received(), "R")
    assert len(held._held) <= HELD_MAX
    hub.passes(5)
    assert traces(hub) == []


def test_traces_of_large_batches_are_sent_in_messages_that_brokers_take() -> None:
    hub = tracing(max_message_size=40_000, compress_msg_body_over_howmuch=1 << 20)
    publisher = Publisher("PG", hub)
    batch = [Message("T", b"x", keys="\u9375" * 20) for _ in range(100)]
    for _ in range(20):
        hub.does(publisher.send_batch(batch))
    hub.passes(1)
    assert len(traces(hub)) == 20
    assert len(sent_traces(hub)) > 1


def test_long_keys_of_traces_are_cut() -> None:
    hub = tracing()
    publisher = Publisher("PG", hub)
    for number in range(50):
        hub.does(publisher.send(Message("T", b"x", keys="\u9375" * 300 + str(number))))
    hub.passes(1)
    (sent,) = sent_traces(hub)
    assert zlib.decompress(sent.body).count(b"\x02") == 50
