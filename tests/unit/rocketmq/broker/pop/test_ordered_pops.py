"""Popping in order: what requests get, and when those that wait do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core import log_limit
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop import ordered_pops, pop_orders
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, request
from tests.unit.rocketmq.broker.popping import Request, popper, with_pops

FIELDS: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": -1, "maxMsgNums": 32,
          "invisibleTime": 1000, "pollTime": 30_000, "bornTime": 1, "initMode": 0,
          "order": "true"}  # fmt: skip


class Peer(FakePeer):
    """Reads the answers that have messages, too, and tells when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    def send_large(self, pieces: Any, nbytes: int) -> None:
        reader = frames.FrameReader()
        reader.feed(b"".join(map(bytes, pieces)))
        while (answer := reader.next_command()) is not None:
            self.sent.append(answer)
        self.answered.set()


PEER = Peer().connection


@pytest.fixture
async def topic(services: Services) -> Services:
    """Three messages in queue 0, one in queue 1."""
    with_pops(services, queues=2)
    await store(services, "T", 0, b"a", b"b", b"c")
    await store(services, "T", 1, b"z", TAGS="blue")
    return services


def ask(services: Services, **changes: Any) -> Peer:
    """A request to pop; what it is answered is at its peer."""
    peer = Peer()
    hand_over(services, peer.connection, request(RequestCode.POP_MESSAGE, **{**FIELDS, **changes}))
    return peer


def bodies(peer: Peer) -> list[bytes]:
    (answer,) = peer.sent
    assert answer.code == 0, answer.remark
    return [message.body for message in decode_all(answer.body)]


async def turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def receipt(services: Services, offset: int, pop_ms: int | None = None) -> dict[str, Any]:
    pop_ms = services.now_ms if pop_ms is None else pop_ms
    return {"consumerGroup": "G", "topic": "T", "queueId": 0, "offset": offset,
            "extraInfo": f"0 {pop_ms} 1000 999 0 broker-a 0 {offset}"}  # fmt: skip


def finish(services: Services, offset: int, pop_ms: int | None = None) -> Command:
    return answered(
        services, PEER, request(RequestCode.ACK_MESSAGE, **receipt(services, offset, pop_ms))
    )


async def test_an_answer(topic: Services) -> None:
    peer = ask(topic, maxMsgNums=2, queueId=0)
    assert bodies(peer) == [b"a", b"b"]
    assert peer.sent[0].ext == {
        "popTime": str(topic.now_ms), "invisibleTime": "1000", "reviveQid": "999",
        "restNum": "1", "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1",
        "orderCountInfo": "0 0 0",
    }  # fmt: skip


async def test_one_batch_of_a_queue_at_a_time(topic: Services) -> None:
    assert bodies(ask(topic, maxMsgNums=2, queueId=0)) == [b"a", b"b"]
    waiting = ask(topic, queueId=0)
    assert bodies(ask(topic)) == [b"z"], "another queue is not blocked"
    assert finish(topic, 1).code == ResponseCode.SUCCESS
    assert topic.offsets.query("T", "G", 0) == 0
    await turns()
    assert waiting.sent == []
    assert finish(topic, 0).code == ResponseCode.SUCCESS
    assert topic.offsets.query("T", "G", 0) == 2
    await turns()
    assert bodies(waiting) == [b"c"]
    finish(topic, 2)
    assert topic.offsets.of("T", "G") == {0: 3, 1: 0}
    assert len(topic.pops) == 0


async def test_other_groups_are_not_blocked(topic: Services) -> None:
    assert len(bodies(ask(topic))) == 4
    assert len(bodies(ask(topic, consumerGroup="H"))) == 4


async def test_after_its_time_a_batch_comes_again(topic: Services, clock: FakeClock) -> None:
    first_ms = topic.now_ms
    ask(topic, queueId=0)
    finish(topic, 0)
    waiting = ask(topic, queueId=0)
    clock.advance(1000 * MILLISECOND)
    topic.pops.ordered._time_over(("T", "G"))
    await turns()
    assert bodies(waiting) == [b"b", b"c"]
    ext = waiting.sent[0].ext or {}
    assert ext["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 1"
    assert finish(topic, 1, first_ms).code == ResponseCode.SUCCESS, "too late, and nothing happens"
    assert topic.offsets.query("T", "G", 0) == 1


async def test_those_who_wait_are_woken_when_the_time_is_over(
    topic: Services, clock: FakeClock
) -> None:
    ask(topic, queueId=0, invisibleTime=1)
    waiting = ask(topic, queueId=0)
    clock.advance(MILLISECOND)
    await asyncio.wait_for(waiting.answered.wait(), 60)
    assert bodies(waiting) == [b"a", b"b", b"c"]


async def test_changing_the_time(topic: Services, clock: FakeClock) -> None:
    ask(topic, queueId=0, maxMsgNums=1)
    pop_ms = topic.now_ms
    clock.advance(500 * MILLISECOND)
    given = receipt(topic, 0, pop_ms)
    code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    answer = answered(topic, PEER, request(code, **given, invisibleTime=9000))
    assert answer.ext == {"popTime": str(pop_ms), "invisibleTime": "9500", "reviveQid": "999"}
    clock.advance(8999 * MILLISECOND)
    waiting = ask(topic, queueId=0)
    await turns()
    assert waiting.sent == []
    answered(topic, PEER, request(code, **given, invisibleTime=0))
    await turns()
    assert bodies(waiting) == [b"a", b"b", b"c"]


async def test_what_was_not_popped_cannot_be_acknowledged(topic: Services) -> None:
    ask(topic, queueId=0, maxMsgNums=1)
    with pytest.raises(RefusedError, match="offset is illegal") as caught:
        finish(topic, 2)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert topic.offsets.query("T", "G", 0) == 0


async def test_several_at_once(topic: Services) -> None:
    ask(topic, queueId=0)
    body = (b'{"brokerName":"broker-a","acks":[{"c":"G","t":"T","r":"0","so":0,"q":0,"rq":999,'
            b'"pt":%d,"it":1000,"b":"Aw=="}]}' % topic.now_ms)  # fmt: skip
    assert answered(topic, PEER, request(RequestCode.BATCH_ACK_MESSAGE, body)).code == 0
    assert topic.offsets.query("T", "G", 0) == 2


async def test_messages_that_come_wake_those_who_wait(topic: Services) -> None:
    ask(topic)
    waiting, other = ask(topic, queueId=1), ask(topic, consumerGroup="H", queueId=0)
    assert bodies(other) == [b"a", b"b", b"c"]
    topic.offsets.commit("T", "G", 1, 1)
    topic.pops.ordered.table.clear(("T", "G"), 1)
    await store(topic, "T", 0, b"d")
    await turns()
    assert waiting.sent == []
    await store(topic, "T", 1, b"y")
    await turns()
    assert bodies(waiting) == [b"y"]
    assert answered(topic, PEER, request(RequestCode.POLLING_INFO, **FIELDS)).ext == {
        "pollingNum": "0"
    }


async def test_only_what_is_wanted(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_pops, "SCAN_MAX", 2)
    await store(topic, "T", 0, b"d", TAGS="blue")
    waiting = ask(topic, queueId=0, exp="blue", expType="TAG")
    await turns()
    assert bodies(waiting) == [b"d"]
    assert topic.offsets.query("T", "G", 0) == 2, "what nobody wants is looked at once"
    assert finish(topic, 3).code == ResponseCode.SUCCESS
    assert topic.offsets.query("T", "G", 0) == 4


async def test_an_answer_has_its_size(topic: Services) -> None:
    topic.settings.max_transfer_bytes_on_message_in_memory = 1
    assert bodies(ask(topic, queueId=0)) == [b"a"]


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
    assert bodies(ask(topic)) == [b"z"]
    with pytest.raises(StorageError, match="Input/output error"):  # nothing else is left to say
        ask(topic)
    monkeypatch.undo()
    assert bodies(ask(topic)) == [b"a", b"b", b"c"]


async def test_an_unread_queue_is_told_a_few_times(
    topic: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    spoil_queue_0(topic, monkeypatch)
    monkeypatch.setattr(log_limit, "LINES", 1)
    for _ in range(3):
        assert bodies(ask(topic, attemptId="again")) == [b"z"]
    clock.advance(log_limit.WINDOW_NS)
    assert bodies(ask(topic, attemptId="again")) == [b"z"]
    told = "the group G cannot pop every queue of T: Input/output error"
    assert caplog.messages == [told, f"{told} (2 lines like this were kept back)"]


async def test_a_queue_that_is_waited_for_and_cannot_be_read_is_told_a_few_times(
    topic: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask(topic, queueId=0)
    waiting = ask(topic, queueId=0)
    spoil_queue_0(topic, monkeypatch)
    monkeypatch.setattr(log_limit, "LINES", 1)
    topic.pops.ordered.table.clear(("T", "G"), 0)
    for body in (b"d", b"e", b"f"):
        await store(topic, "T", 0, body)
        await turns()
    assert waiting.sent == []
    assert caplog.messages == ["the group G waits to pop queue 0 of T in vain: Input/output error"]


async def test_nothing_in_time(topic: Services) -> None:
    ask(topic)
    peer = ask(topic, pollTime=0)
    await turns()
    assert [each.code for each in peer.sent] == [ResponseCode.POLLING_TIMEOUT]
    stays, leaves = ask(topic), ask(topic)
    assert len(topic.pops) == 2
    topic.pops.forget(leaves.connection)
    assert (len(topic.pops), leaves.sent) == (1, [])
    topic.pops.forget(stays.connection)
    assert len(topic.pops) == 0


async def test_a_repeated_attempt(topic: Services) -> None:
    assert len(bodies(ask(topic, queueId=0, attemptId="x"))) == 3
    again = ask(topic, queueId=0, attemptId="x")
    assert len(bodies(again)) == 3
    assert (again.sent[0].ext or {})["orderCountInfo"] == "0 0 0"


async def test_limits(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(topic, queueId=0)
    monkeypatch.setattr("penstock.rocketmq.broker.pop.popping.WAITING_OF_GROUP_MAX", 0)
    assert [each.code for each in ask(topic, queueId=0).sent] == [ResponseCode.POLLING_FULL]
    monkeypatch.setattr(ordered_pops, "OPEN_MAX", 1)
    monkeypatch.setattr(pop_orders, "OPEN_MAX", 1)
    with pytest.raises(RefusedError, match="not acknowledged"):
        ask(topic, consumerGroup="H")


async def test_a_topic_that_is_deleted(topic: Services) -> None:
    ask(topic)
    waiting = ask(topic)
    topic.store.forget("T")
    assert [each.code for each in waiting.sent] == [ResponseCode.POLLING_TIMEOUT]
    assert ("T", "G") not in topic.pops.ordered.table


async def test_an_offset_that_somebody_sets(topic: Services) -> None:
    ask(topic, queueId=0)
    waiting = ask(topic, queueId=0)
    answered(topic, PEER, request(15, consumerGroup="G", topic="T", queueId=0, commitOffset=2))
    await turns()
    assert bodies(waiting) == [b"c"]


async def test_an_offset_that_is_set_too_far(topic: Services) -> None:
    topic.offsets.commit("T", "G", 0, 99)
    waiting = ask(topic, queueId=0)
    assert topic.offsets.query("T", "G", 0) == 3
    await store(topic, "T", 0, b"d")
    await turns()
    assert bodies(waiting) == [b"d"]


async def test_looking(topic: Services) -> None:
    ask(topic, queueId=1)
    answer = answered(topic, PEER, request(RequestCode.PEEK_MESSAGE, **{**FIELDS, "maxMsgNums": 2}))
    assert answer is not None
    assert [each.body for each in decode_all(answer.body)] == [b"a", b"b"]
    assert (answer.ext or {})["restNum"] == "1"


async def test_from_out_of_order_to_in_order_and_back(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = popper(topic)
    loose = Request(1)
    channel.wait(loose, 1000)
    await turns()
    channel.finish([loose.popped[0].offset])
    peer = ask(topic, queueId=0)
    assert bodies(peer) == [b"b", b"c"]
    for offset in (1, 2):
        finish(topic, offset)
    topic.pops.commit()
    assert topic.offsets.query("T", "G", 0) == 3, "the channel has no say"
    channel = popper(topic)
    rest: Callable[[], int] = lambda: channel.channel.state.depth  # noqa: E731
    assert rest() == 1


async def test_it_survives_a_restart(topic: Services) -> None:
    ask(topic, queueId=0)
    finish(topic, 1)
    kept = topic.pops.ordered.table.as_json()
    topic.files.save(pop_orders.FILE)
    with_pops(topic, queues=2)
    assert topic.pops.ordered.table.as_json() == kept
    waiting = ask(topic, queueId=0)
    for offset in (0, 2):
        finish(topic, offset)
    await turns()
    assert topic.offsets.query("T", "G", 0) == 3
    assert waiting.sent == []


async def test_a_batch_that_was_done_before_a_crash_blocks_nothing(topic: Services) -> None:
    assert bodies(ask(topic, maxMsgNums=2, queueId=0)) == [b"a", b"b"]
    topic.offsets.commit("T", "G", 0, 2)  # as the files say when only one of them was written
    assert bodies(ask(topic, queueId=0)) == [b"c"]
