"""Popping in order: what requests get, when those that wait do, and the table of batches."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core import log_limit
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop import ordered_pops, pop_orders
from penstock.rocketmq.broker.pop.pop_orders import KEPT_MS, Finished, OpenBatch, OrderTable
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store, until
from tests.unit.rocketmq.broker.peers import FakePeer, ask, hand_over, refused, request
from tests.unit.rocketmq.broker.popping import popper, settled, take, with_pops

FIELDS: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": 0, "maxMsgNums": 32,
          "invisibleTime": 1000, "pollTime": 30_000, "bornTime": 1, "initMode": 0,
          "order": "true"}  # fmt: skip
ANY = -1


@pytest.fixture
async def topic(services: Services) -> Services:
    """Three messages in queue 0, one in queue 1."""
    with_pops(services, queues=2)
    await store(services, "T", 0, b"a", b"b", b"c")
    await store(services, "T", 1, b"z", TAGS="blue")
    return services


def pop(services: Services, **changes: Any) -> FakePeer:
    """A request to pop queue 0; what it is answered is at its peer."""
    peer = FakePeer()
    hand_over(services, peer.connection, request(Code.POP_MESSAGE, **{**FIELDS, **changes}))
    return peer


def bodies(peer: FakePeer) -> list[bytes]:
    (answer,) = peer.sent
    assert answer.code == 0, answer.remark
    return [message.body for message in decode_all(answer.body)]


def receipt(services: Services, offset: int, pop_ms: int | None = None) -> dict[str, Any]:
    pop_ms = services.now_ms if pop_ms is None else pop_ms
    return {"consumerGroup": "G", "topic": "T", "queueId": 0, "offset": offset,
            "extraInfo": f"0 {pop_ms} 1000 999 0 broker-a 0 {offset}"}  # fmt: skip


def finish(services: Services, offset: int, pop_ms: int | None = None) -> None:
    answer = ask(services, Code.ACK_MESSAGE, **receipt(services, offset, pop_ms))
    assert answer.code == ResponseCode.SUCCESS


async def test_an_answer(topic: Services) -> None:
    peer = pop(topic, maxMsgNums=2)
    assert bodies(peer) == [b"a", b"b"]
    assert peer.sent[0].ext == {
        "popTime": str(topic.now_ms), "invisibleTime": "1000", "reviveQid": "999",
        "restNum": "1", "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1",
        "orderCountInfo": "0 0 0",
    }  # fmt: skip


async def test_one_batch_of_a_queue_at_a_time(topic: Services) -> None:
    assert bodies(pop(topic, maxMsgNums=2)) == [b"a", b"b"]
    waiting = pop(topic)
    assert bodies(pop(topic, queueId=ANY)) == [b"z"], "another queue is not blocked"
    assert len(bodies(pop(topic, queueId=ANY, consumerGroup="H"))) == 4, "nor another group"
    for offset, reached in ((1, 0), (0, 2)):
        await settled()
        assert waiting.sent == []
        finish(topic, offset)
        assert topic.offsets.query("T", "G", 0) == reached
    await settled()
    assert bodies(waiting) == [b"c"]
    finish(topic, 2)
    assert topic.offsets.of("T", "G") == {0: 3, 1: 0}
    assert len(topic.pops) == 0


async def test_those_who_wait_are_woken_when_the_time_is_over(
    topic: Services, clock: FakeClock
) -> None:
    pop(topic, invisibleTime=1)
    waiting = pop(topic)
    clock.advance(MILLISECOND)
    await until(lambda: waiting.sent)
    assert bodies(waiting) == [b"a", b"b", b"c"]


async def test_changing_the_time(topic: Services, clock: FakeClock) -> None:
    pop(topic, maxMsgNums=1)
    given, code = receipt(topic, 0), Code.CHANGE_MESSAGE_INVISIBLETIME
    pop_ms = topic.now_ms
    clock.advance(500 * MILLISECOND)
    answer = ask(topic, code, **given, invisibleTime=9000)
    assert answer.ext == {"popTime": str(pop_ms), "invisibleTime": "9500", "reviveQid": "999"}
    clock.advance(8999 * MILLISECOND)
    waiting = pop(topic)
    await settled()
    assert waiting.sent == []
    ask(topic, code, **given, invisibleTime=0)
    await settled()
    assert bodies(waiting) == [b"a", b"b", b"c"]


async def test_what_was_not_popped_cannot_be_acknowledged(topic: Services) -> None:
    pop(topic, maxMsgNums=1)
    with refused(ResponseCode.MESSAGE_ILLEGAL, "offset is illegal"):
        finish(topic, 2)
    assert topic.offsets.query("T", "G", 0) == 0


async def test_several_at_once(topic: Services) -> None:
    pop(topic)
    body = (b'{"brokerName":"broker-a","acks":[{"c":"G","t":"T","r":"0","so":0,"q":0,"rq":999,'
            b'"pt":%d,"it":1000,"b":"Aw=="}]}' % topic.now_ms)  # fmt: skip
    assert ask(topic, Code.BATCH_ACK_MESSAGE, body).code == 0
    assert topic.offsets.query("T", "G", 0) == 2


async def test_messages_that_come_wake_those_who_wait(topic: Services) -> None:
    pop(topic, queueId=ANY)
    waiting, other = pop(topic, queueId=1), pop(topic, consumerGroup="H")
    assert bodies(other) == [b"a", b"b", b"c"]
    topic.offsets.commit("T", "G", 1, 1)
    topic.pops.ordered.table.clear(("T", "G"), 1)
    await store(topic, "T", 0, b"d")
    await settled()
    assert waiting.sent == []
    await store(topic, "T", 1, b"y")
    await settled()
    assert bodies(waiting) == [b"y"]
    assert ask(topic, Code.POLLING_INFO, **FIELDS).ext == {"pollingNum": "0"}


async def test_only_what_is_wanted(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_pops, "SCAN_MAX", 2)
    await store(topic, "T", 0, b"d", TAGS="blue")
    waiting = pop(topic, exp="blue", expType="TAG")
    await settled()
    assert bodies(waiting) == [b"d"]
    assert topic.offsets.query("T", "G", 0) == 2, "what nobody wants is looked at once"
    finish(topic, 3)
    assert topic.offsets.query("T", "G", 0) == 4


async def test_an_answer_has_its_size(topic: Services) -> None:
    topic.settings.max_transfer_bytes_on_message_in_memory = 1
    assert bodies(pop(topic)) == [b"a"]


async def test_looking(topic: Services) -> None:
    pop(topic, queueId=1)
    answer = ask(topic, Code.PEEK_MESSAGE, **{**FIELDS, "queueId": ANY, "maxMsgNums": 2})
    assert [each.body for each in decode_all(answer.body)] == [b"a", b"b"]
    assert (answer.ext or {})["restNum"] == "1"


def spoil_queue_0(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the disk refuse to read a queue."""
    slices = topic.store.slices

    def read(name: str, queue: int, offset: int, count: int) -> Any:
        if queue == 0:
            raise StorageError("Input/output error")
        return slices(name, queue, offset, count)

    monkeypatch.setattr(topic.store, "slices", read)


async def test_a_queue_that_cannot_be_read_holds_up_no_other(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_queue_0(topic, monkeypatch)
    assert bodies(pop(topic, queueId=ANY)) == [b"z"]
    with pytest.raises(StorageError, match="Input/output error"):  # nothing else is left to say
        pop(topic, queueId=ANY)
    monkeypatch.undo()
    assert bodies(pop(topic, queueId=ANY)) == [b"a", b"b", b"c"]


async def test_an_unread_queue_is_told_a_few_times(
    topic: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    spoil_queue_0(topic, monkeypatch)
    monkeypatch.setattr(log_limit, "LINES", 1)
    for rest_ns in (0, 0, 0, log_limit.WINDOW_NS):
        clock.advance(rest_ns)
        assert bodies(pop(topic, queueId=ANY, attemptId="again")) == [b"z"]
    told = "the group G cannot pop every queue of T: Input/output error"
    assert caplog.messages == [told, f"{told} (2 lines like this were kept back)"]


async def test_a_queue_that_is_waited_for_and_cannot_be_read_is_told_a_few_times(
    topic: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pop(topic)
    waiting = pop(topic)
    spoil_queue_0(topic, monkeypatch)
    monkeypatch.setattr(log_limit, "LINES", 1)
    topic.pops.ordered.table.clear(("T", "G"), 0)
    for body in (b"d", b"e", b"f"):
        await store(topic, "T", 0, body)
        await settled()
    assert waiting.sent == []
    assert caplog.messages == ["the group G waits to pop queue 0 of T in vain: Input/output error"]


async def test_nothing_in_time(topic: Services) -> None:
    pop(topic, queueId=ANY)
    peer = pop(topic, queueId=ANY, pollTime=0)
    await settled()
    assert peer.codes == [ResponseCode.POLLING_TIMEOUT]
    stays, leaves = pop(topic), pop(topic)
    assert len(topic.pops) == 2
    topic.pops.forget(leaves.connection)
    assert (len(topic.pops), leaves.sent) == (1, [])
    topic.pops.forget(stays.connection)
    assert len(topic.pops) == 0


async def test_a_repeated_attempt(topic: Services) -> None:
    for _ in range(2):
        peer = pop(topic, attemptId="x")
        assert len(bodies(peer)) == 3
        assert peer.sent[0].text("orderCountInfo") == "0 0 0"


async def test_limits_of_those_who_wait_and_of_what_is_out(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    pop(topic)
    monkeypatch.setattr("penstock.rocketmq.broker.pop.popping.WAITING_OF_GROUP_MAX", 0)
    assert pop(topic).codes == [ResponseCode.POLLING_FULL]
    monkeypatch.setattr(ordered_pops, "OPEN_MAX", 1)
    monkeypatch.setattr(pop_orders, "OPEN_MAX", 1)
    with pytest.raises(RefusedError, match="not acknowledged"):
        pop(topic, consumerGroup="H")


async def test_a_topic_that_is_deleted(topic: Services) -> None:
    pop(topic)
    waiting = pop(topic)
    topic.store.forget("T")
    assert waiting.codes == [ResponseCode.POLLING_TIMEOUT]
    assert ("T", "G") not in topic.pops.ordered.table


async def test_an_offset_that_somebody_sets(topic: Services) -> None:
    pop(topic)
    waiting = pop(topic)
    commit = Code.UPDATE_CONSUMER_OFFSET
    ask(topic, commit, consumerGroup="G", topic="T", queueId=0, commitOffset=2)
    await settled()
    assert bodies(waiting) == [b"c"]


async def test_an_offset_that_is_set_too_far(topic: Services) -> None:
    topic.offsets.commit("T", "G", 0, 99)
    waiting = pop(topic)
    assert topic.offsets.query("T", "G", 0) == 3
    await store(topic, "T", 0, b"d")
    await settled()
    assert bodies(waiting) == [b"d"]


async def test_from_out_of_order_to_in_order_and_back(topic: Services) -> None:
    channel = popper(topic)
    channel.finish((await take(channel, 1)).offsets)
    assert bodies(pop(topic)) == [b"b", b"c"]
    for offset in (1, 2):
        finish(topic, offset)
    topic.pops.commit()
    assert topic.offsets.query("T", "G", 0) == 3, "the channel has no say"
    assert popper(topic).channel.state.depth == 1


async def test_a_batch_that_was_done_before_a_crash_blocks_nothing(topic: Services) -> None:
    assert bodies(pop(topic, maxMsgNums=2)) == [b"a", b"b"]
    topic.offsets.commit("T", "G", 0, 2)  # as the files say when only one of them was written
    assert bodies(pop(topic)) == [b"c"]


# --- the table of batches; the times are given ----------------------------------------------------


KEY = ("T", "G")
QUEUE = 3
NOW = 1_000_000


@pytest.fixture
def table() -> OrderTable:
    """Messages 5 to 7 are out for a second."""
    table = OrderTable()
    assert table.put(KEY, QUEUE, OpenBatch([5, 6, 7], NOW, 1000)) == (QUEUE, 0, {})
    return table


def test_a_queue_is_blocked_until_all_is_acknowledged(table: OrderTable) -> None:
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.may_pop(KEY, QUEUE + 1, NOW)
    assert table.may_pop(("T", "other"), QUEUE, NOW)
    assert table.finish(KEY, QUEUE, [7], NOW) == Finished(5, [])
    assert table.finish(KEY, QUEUE, [5], NOW) == Finished(6, [])
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.finish(KEY, QUEUE, [6], NOW) == Finished(8, [])
    assert table.may_pop(KEY, QUEUE, NOW)
    assert (len(table), KEY in table) == (0, True)


def test_a_batch_from_the_future_blocks_nobody(table: OrderTable) -> None:
    """After the system's time was set back, it would otherwise stay invisible for much longer."""
    assert table.may_pop(KEY, QUEUE, NOW - 1001)
    assert table.free_ms(KEY, NOW - 1001) is None
    assert not table.may_pop(KEY, QUEUE, NOW - 1000)
    assert table.free_ms(KEY, NOW - 1000) == NOW + 1000


def test_acknowledgements_that_are_not_of_the_batch(table: OrderTable) -> None:
    assert table.finish(KEY, QUEUE, [5, 9], NOW) == Finished(6, [9])
    assert table.finish(KEY, QUEUE, [6], NOW - 1) is None
    assert table.finish(KEY, QUEUE + 1, [6], NOW) is None
    assert table.finish(("T", "other"), QUEUE, [6], NOW) is None
    found = table.find(KEY, QUEUE)
    assert found is not None
    assert (found.next_offset, found.done) == (6, {5})


def test_what_is_visible_again_is_counted(table: OrderTable) -> None:
    assert not table.may_pop(KEY, QUEUE, NOW + 999)
    assert table.may_pop(KEY, QUEUE, NOW + 1000)
    later = NOW + 1000
    assert table.put(KEY, QUEUE, OpenBatch([5, 6, 7, 8], later, 1000)) == (
        QUEUE, 0, {5: 1, 6: 1, 7: 1},
    )  # fmt: skip
    assert table.finish(KEY, QUEUE, [5], NOW) is None, "that batch is out no more"
    table.finish(KEY, QUEUE, [5], later)
    again = OpenBatch([6, 7, 8], later + 1000, 1000)
    assert table.put(KEY, QUEUE, again) == (QUEUE, 1, {6: 2, 7: 2, 8: 1})
    assert len(table) == 1


def test_who_repeats_an_attempt_is_not_blocked() -> None:
    table = OrderTable()
    table.put(KEY, QUEUE, OpenBatch([5], NOW, 1000, "first"))
    assert not table.may_pop(KEY, QUEUE, NOW, "second")
    assert not table.may_pop(KEY, QUEUE, NOW)
    assert table.may_pop(KEY, QUEUE, NOW, "first")
    assert table.put(KEY, QUEUE, OpenBatch([5], NOW, 1000, "first")).counts == {}


def test_another_time_for_a_message(table: OrderTable) -> None:
    assert table.hide(KEY, QUEUE, 6, NOW, NOW + 5000)
    assert table.free_ms(KEY, NOW) == NOW + 5000
    assert not table.may_pop(KEY, QUEUE, NOW + 4999)
    assert table.hide(KEY, QUEUE, 6, NOW, NOW)
    assert table.free_ms(KEY, NOW) == NOW + 1000, "the others are hidden still"
    assert not table.hide(KEY, QUEUE, 9, NOW, NOW)
    assert not table.hide(KEY, QUEUE, 6, NOW - 1, NOW)
    table.finish(KEY, QUEUE, [5, 7], NOW)
    assert table.may_pop(KEY, QUEUE, NOW)
    assert table.free_ms(KEY, NOW) is None


def test_forgetting(table: OrderTable) -> None:
    table.put(("T", "other"), 0, OpenBatch([1], NOW, 1000))
    table.put(("other", "G"), 0, OpenBatch([1], NOW, 1000))
    table.forget_topic("T")
    assert (KEY in table, ("T", "other") in table, len(table)) == (False, False, 1)
    table.forget_group("G")
    assert len(table) == 0
    table.put(KEY, 0, OpenBatch([1], NOW, 1000))
    table.forget_old(NOW + 1000 + KEPT_MS)
    assert len(table) == 1
    table.forget_old(NOW + 1001 + KEPT_MS)
    assert (len(table), KEY in table) == (0, True)
    assert table.leave(KEY)
    assert not table.leave(KEY)


def test_limits_of_the_table(table: OrderTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_orders, "GROUPS_MAX", 1)
    monkeypatch.setattr(pop_orders, "OPEN_MAX", 1)
    table.enter(KEY)
    with pytest.raises(BodyError, match="more than 1 groups"):
        table.enter(("T", "other"))
    assert not table.may_pop(KEY, QUEUE + 1, NOW)
    assert table.may_pop(KEY, QUEUE, NOW + 1000)
    monkeypatch.undo()
    with pytest.raises(BodyError, match="is too long"):
        table.enter(("T", "x" * 1000))


def test_the_file_is_as_java_writes_it(table: OrderTable) -> None:
    table.finish(KEY, QUEUE, [6], NOW)
    table.hide(KEY, QUEUE, 7, NOW, NOW + 3000)
    table.enter(("T", "empty"))
    written = table.as_json()
    assert written == {"table": {
        "T@G": {QUEUE: {"popTime": NOW, "i": 1000, "o": [5, 1, 2], "cm": 2, "l": NOW,
                        "oc": {}, "ot": {7: NOW + 3000}}},
        "T@empty": {},
    }}  # fmt: skip
    loaded = OrderTable()
    loaded.load(fastjson.loads(fastjson.dumps(written)))
    assert loaded.as_json() == written
    assert (len(loaded), ("T", "empty") in loaded) == (1, True)
    assert loaded.finish(KEY, QUEUE, [5], NOW) == Finished(7, [])


BATCH = {"popTime": 1, "i": 2, "o": [3], "cm": 0}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"table": {"no-group": {}}},
        {"table": {"T@G": 5}},
        {"table": {"T@G": {"0": {**BATCH, "o": ["x"]}}}},
        {"table": {"T@G": {"0": {**BATCH, "popTime": None}}}},
        {"table": {"T@G": {"0": {**BATCH, "o": list(range(63))}}}},
        {"table": {"T@G": {"0": {**BATCH, "ot": {"3": "x"}}}}},
    ],
)
def test_a_damaged_file(value: Any) -> None:
    with pytest.raises(BodyError):
        OrderTable().load(value)


def test_what_is_loaded_takes_the_place_of_what_was_there(table: OrderTable) -> None:
    """As when a slave reads the table again that its master has written."""
    with pytest.raises(BodyError):
        table.load({"table": {"T@H": {}, "no key": {}}})
    assert KEY in table
    assert ("T", "H") not in table
    written = table.as_json()
    table.load(written)
    assert table.as_json() == written, "had once, whoever reads of it again"
    table.load({"table": {}})
    assert (KEY in table, len(table)) == (False, 0)
