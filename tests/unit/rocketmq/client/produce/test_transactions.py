"""Half messages and how they end, without a network."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadMessage, NotConnected
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.transactions import Check, Transactions, TransactionState
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.memory_hub import MemoryHub
from tools.harness.rocketmq.records import stored

END = RequestCode.END_TRANSACTION
COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK


def made(check: Check | None = lambda _: COMMIT) -> tuple[MemoryHub, Transactions]:
    hub = MemoryHub()
    hub.has_topic("T")
    return hub, Transactions(Publisher("PG", hub), check)


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, TransactionState.UNKNOWN])
def test_the_end_is_told(state: TransactionState) -> None:
    hub, transactions = made()
    found = hub.does(Job(transactions.send(Message("T", b"x", delay_level=3), lambda _: state)))
    hub.work()
    assert found.state is state
    (half,) = hub.requests(RequestCode.SEND_MESSAGE_V2)
    marks = properties.parse(half.text("i"))
    assert (marks["TRAN_MSG"], marks["PGROUP"], half.text("f")) == ("true", "PG", "4")
    assert "DELAY" not in marks
    (end,) = hub.requests(END)
    assert end.is_one_way
    assert (end.text("commitOrRollback"), end.text("tranStateTableOffset")) == (
        str(int(state)),
        "5",
    )
    assert (end.text("commitLogOffset"), end.text("msgId")) == ("0", found.sent.id)


def test_work_that_fails_leaves_it_open_and_is_raised() -> None:
    hub, transactions = made()
    with pytest.raises(ZeroDivisionError):
        hub.does(Job(transactions.send(Message("T", b"x"), lambda _: 1 // 0)))
    hub.work()
    assert hub.requests(END)[0].text("commitOrRollback") == "0"


def test_what_was_not_stored_safely_is_rolled_back() -> None:
    hub, transactions = made()
    ok = hub.stored
    hub.answers[RequestCode.SEND_MESSAGE_V2] = lambda a, r: r.answer(
        ResponseCode.FLUSH_DISK_TIMEOUT, ext=ok(a, r).ext
    )
    done: list[Message] = []
    found = hub.does(Job(transactions.send(Message("T", b"x"), done.append)))
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
    hub.does(Job(transactions.send(Message("T", b"x"), lambda _: COMMIT)))
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
        hub.does(Job(transactions.send(Message("T", b"x"), lambda _: COMMIT)))
