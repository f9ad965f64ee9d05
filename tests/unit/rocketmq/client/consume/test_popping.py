"""POP without a network, and receipts of what was popped."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client import errors
from penstock.rocketmq.client.consume.filters import filter_of
from penstock.rocketmq.client.consume.popping import Popped, Popper
from penstock.rocketmq.client.consume.receipts import Handout, Receipt, batch_of_acks
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import encode
from penstock.rocketmq.protocol.pop_info import BatchAck
from penstock.rocketmq.protocol.pop_info import Receipt as Acked
from tests.unit.rocketmq.client.memory_hub import MemoryHub, answering, refusing, silent
from tools.harness.rocketmq.records import stored

POP, ACK, BATCH_ACK = (
    RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE,
)  # fmt: skip
FIELDS = {"popTime": "50", "invisibleTime": "60", "reviveQid": "7", "startOffsetInfo": "0 3 8"}


def made(*records: bytes, wanted: str = "*", brokers: str = "a") -> tuple[MemoryHub, Popper]:
    hub = MemoryHub()
    hub.has_topic("T", brokers=brokers)
    hub.answers[POP] = lambda address, request: (
        request.answer(ext=dict(FIELDS), body=b"".join(records))
        if address.startswith("a")
        else request.answer(ResponseCode.POLLING_TIMEOUT)
    )
    hub.answers[ACK] = answering()
    return hub, Popper("G", "T", filter_of(wanted), hub)


def receive(hub: MemoryHub, popper: Popper) -> list[Popped]:
    found: list[Popped] = hub.does(popper.receive(8, 60.0, 5.0))
    return found


def test_a_message_may_bring_its_own() -> None:
    hub, popper = made(encode(stored(topic="%RETRY%G_T", POP_CK="1 2 3 4 1 a 0 5")))
    (found,) = receive(hub, popper)
    hub.does(popper.ack(found))
    (request,) = hub.requests(ACK)
    assert (request.text("topic"), request.text("offset")) == ("%RETRY%G_T", "5")
    found.receipt = found.receipt._replace(retry="2")
    hub.does(popper.ack(found))
    assert hub.requests(ACK)[1].text("topic") == "%RETRY%G+T"


def test_brokers_are_asked_in_turn_and_only_the_last_may_wait() -> None:
    hub, popper = made(encode(stored()), brokers="abc")
    for _ in range(3):
        assert len(receive(hub, popper)) == 1
    assert {request.text("pollTime") for request in hub.requests(POP)} <= {"0", "5000"}
    hub.answers[POP] = refusing(ResponseCode.POLLING_FULL)
    hub.log.clear()
    assert receive(hub, popper) == []
    assert [request.text("pollTime") for request in hub.requests(POP)] == ["0", "0", "5000"]


def test_what_only_has_the_hash_of_a_tag_is_acknowledged_at_once() -> None:
    hub, popper = made(encode(stored(TAGS="Aa")), encode(stored(TAGS="BB")), wanted="BB")
    assert [each.tags for each in receive(hub, popper)] == ["BB"]
    hub.work()
    assert len(hub.requests(ACK)) == 1


def test_hiding_for_longer_gives_another_receipt() -> None:
    hub, popper = made(encode(stored()))
    changed = answering(popTime="99", invisibleTime="88", reviveQid="1")
    hub.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = changed
    (found,) = receive(hub, popper)
    hub.does(popper.change_invisible(found, 88.0))
    assert found.receipt[1:4] == ("99", "88", "1")
    hub.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = answering()
    with pytest.raises(errors.BadAnswer):
        hub.does(popper.change_invisible(found, 1.0))


@pytest.mark.parametrize(
    "answer",
    [{"ext": {}}, {"ext": {**FIELDS, "startOffsetInfo": "x"}}, {"ext": FIELDS, "body": b"x"}],
)
def test_nonsense(answer: dict[str, Any]) -> None:
    hub, popper = made()
    hub.answers[POP] = lambda _, request: request.answer(**answer)
    with pytest.raises(errors.BadAnswer):
        receive(hub, popper)


def test_refusals() -> None:
    hub, popper = made()

    def refuse(_: str, request: Command) -> Command:
        return request.answer(ResponseCode.NO_PERMISSION, "no")

    hub.answers[POP] = refuse
    with pytest.raises(errors.NoPermission, match="group G, topic T"):
        receive(hub, popper)
    hub.has_topic("U", perm=2)
    with pytest.raises(errors.NoRoute):
        receive(hub, Popper("G", "U", filter_of("*"), hub))


def test_a_broker_that_fails_holds_up_no_other() -> None:
    hub, popper = made(encode(stored()), brokers="ab")
    hub.down.add("b:10911")
    for _ in range(3):
        assert len(receive(hub, popper)) == 1
    hub.answers[POP] = refusing(ResponseCode.POLLING_TIMEOUT)
    with pytest.raises(errors.NotConnected, match="b:10911"):
        receive(hub, popper)
    assert hub.requests(POP)[-1].text("pollTime") == "5000"
    hub.down.clear()
    assert receive(hub, popper) == []
    hub.close()
    with pytest.raises(errors.Stopped):
        hub.does(popper.receive(8, 60.0, 5.0))


def test_all_brokers_have_their_acknowledgements_also_if_one_fails() -> None:
    hub, popper = made(encode(stored()), brokers="ab")
    give = hub.answers[POP]
    hub.answers[POP] = lambda _, request: give("a", request)
    found = receive(hub, popper) + receive(hub, popper)
    assert {each.broker for each in found} == {"a", "b"}
    first = found[0].broker
    hub.answers[ACK] = lambda address, request: request.answer(
        ResponseCode.SYSTEM_ERROR if address.startswith(first) else 0
    )
    with pytest.raises(errors.BrokerError, match=f"{first}:10911"):
        hub.does(popper.ack(*found))
    assert len(hub.requests(ACK)) == 2


def test_messages_of_one_broker_are_acknowledged_together() -> None:
    records = [encode(stored(queue=3, offset=offset)) for offset in (8, 10)]
    own = encode(stored(topic="%RETRY%G_T", offset=5, POP_CK="4 2 3 4 1 a 0"))
    hub, popper = made(*records, own)
    hub.answers[BATCH_ACK] = answering()
    hub.does(popper.ack(*receive(hub, popper)))
    (request,) = hub.requests(BATCH_ACK)
    assert not hub.requests(ACK)
    assert fastjson.loads(request.body)["brokerName"] == "a"
    first, second = BatchAck.parse_all(request.body)
    assert first == BatchAck("G", "T", 3, Acked(50, 60, 7), [8, 10])
    assert second == BatchAck("G", "T", 0, Acked(2, 3, 4), [5])
    hub.answers[BATCH_ACK] = refusing(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    hub.does(popper.ack(*receive(hub, popper)))
    assert len(hub.requests(ACK)) == 3, "by brokers that know no such request, one by one"


def test_in_order_the_attempt_whose_answer_was_lost_is_made_again() -> None:
    records = [encode(stored(queue=3, offset=offset)) for offset in (8, 9)]
    hub, _ = made(*records)
    popper = Popper("G", "T", filter_of("*"), hub, is_orderly=True)
    give = hub.answers[POP]
    counts = {**FIELDS, "orderCountInfo": "0 qo3%8 2;0 3 0"}
    hub.answers[POP] = answering(b"".join(records), **counts)
    assert [each.reconsume_times for each in receive(hub, popper)] == [2, 0]
    hub.answers[POP] = silent
    with pytest.raises(errors.TimedOut):
        receive(hub, popper)
    hub.answers[POP] = give
    receive(hub, popper)
    receive(hub, popper)
    requests = hub.requests(POP)
    assert {request.text("order") for request in requests} == {"true"}
    attempts = [request.text("attemptId") for request in requests]
    assert attempts[1] == attempts[2]
    assert len(set(attempts)) == 3


def test_leaving() -> None:
    hub, popper = made()
    receive(hub, popper)
    hub.does(popper.leave())
    assert hub.requests(RequestCode.UNREGISTER_CLIENT)[0].text("consumerGroup") == "G"


# --- receipts -------------------------------------------------------------------------------------


def handout(starts: str = "", counts: str = "") -> Handout:
    ext = FIELDS | {"startOffsetInfo": starts, "orderCountInfo": counts}
    return Handout.of(Command(0, ext=ext))


def test_a_receipt_begins_where_its_queue_was_popped_from() -> None:
    found = handout("0 3 8;1 0 4")
    assert str(found.receipt(stored(queue=3, offset=9), "a")) == "8 50 60 7 0 a 3 9"
    assert str(found.receipt(stored("%RETRY%G_T", offset=5), "a")) == "4 50 60 7 1 a 0 5"
    assert str(found.receipt(stored(queue=1, offset=2), "a")) == "2 50 60 7 0 a 1 2"


def test_a_receipt_leads_to_the_topic_that_its_message_was_popped_from() -> None:
    receipt = Receipt.parse("8 50 60 7 0 a 3", 9)
    assert receipt.offset == "9"
    topics = [receipt._replace(retry=each).topic("G", "T") for each in "012"]
    assert topics == ["T", "%RETRY%G_T", "%RETRY%G+T"]


def test_a_message_is_counted_by_its_offset_or_else_its_queue() -> None:
    found = handout(counts="0 qo3%8 2;0 3 1")
    assert found.count(stored(queue=3, offset=8)) == 2
    assert found.count(stored(queue=3, offset=9)) == 1
    assert found.count(stored(queue=4, offset=9)) == 0


def test_what_was_popped_together_is_one_entry_of_a_batch() -> None:
    receipts = [Receipt.parse(f"8 50 60 7 0 a {queue}", offset)
                for queue, offset in ((3, 8), (3, 17), (4, 9))]  # fmt: skip
    found = batch_of_acks("a", "G", "T", receipts)
    assert found["brokerName"] == "a"
    offsets = [(each.queue, each.offsets) for each in map(BatchAck.parse, found["acks"])]
    assert offsets == [(3, [8, 17]), (4, [9])]


@pytest.mark.parametrize("text", ["", "1 2 3", "x 2 3 4 0 a 0", "9 2 3 4 0 a 0", "0 2 3 4 0 a y"])
def test_a_receipt_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises((BodyError, ValueError)):
        Receipt.parse(text, 8)
