"""Groups that pop in order, against a real broker: one batch of a queue at a time."""

from __future__ import annotations

from penstock.rocketmq.protocol.codes import ResponseCode
from tools.harness.rocketmq.popping import Popper, popped
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import SECONDS, Both

WAIT_MS = int(SECONDS * 1000)


def filled(both: Both) -> Popper:
    """A topic of two queues with even numbers in the one, odd ones in the other."""
    client: RawClient = both.client()
    both.make_topic(client, "t", queues=2)
    for number in range(6):
        both.send(client, "t", b"%d" % number, queue=number % 2)
    return Popper(client, "t", "orderly%group")  # no channel, so no channel's name


def test_one_batch_at_a_time(both: Both) -> None:
    popper = filled(both)
    first = popped(popper.pop_in_order(2, queueId=0))
    assert [each.body for each in first] == [b"0", b"2"]
    assert first[0].receipt.split(" ")[3] == "999"
    assert popped(popper.pop_in_order(queueId=0)) == []
    other = popped(popper.pop_in_order())
    assert [each.body for each in other] == [b"1", b"3", b"5"]
    assert popper.ack(first[1]).code == ResponseCode.SUCCESS
    assert popped(popper.pop_in_order(queueId=0)) == []
    assert popper.ack(first[0]).code == ResponseCode.SUCCESS
    (last,) = popped(popper.pop_in_order())
    assert last.body == b"4"
    assert popper.batch_ack([*other, last]).code == ResponseCode.SUCCESS
    assert both.services.offsets.of("t", popper.group) == {0: 3, 1: 3}
    assert popped(popper.pop_in_order()) == []


def test_what_is_not_acknowledged_in_time_comes_again_in_order(both: Both) -> None:
    popper = filled(both)
    first = popped(popper.pop_in_order(queueId=0))
    popper.ack(first[0])
    for each in first[1:]:  # from here on, however long the acknowledgement took
        assert popper.change(each, 50).code == ResponseCode.SUCCESS
    answer = popper.pop_in_order(queueId=0, invisible_ms=50, poll_ms=WAIT_MS)
    assert [each.body for each in popped(answer)] == [b"2", b"4"]
    assert (answer.ext or {})["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 1"
    again = popped(popper.pop_in_order(queueId=0, poll_ms=WAIT_MS))
    assert [each.body for each in again] == [b"2", b"4"]
    popper.ack(first[1])  # of the first batch, so it is worth nothing
    assert both.services.offsets.query("t", popper.group, 0) == 1
    assert popper.change(again[0], 50).code == ResponseCode.SUCCESS
    assert popper.ack(again[1]).code == ResponseCode.SUCCESS
    once_more = popper.pop_in_order(queueId=0, poll_ms=WAIT_MS)
    assert [each.body for each in popped(once_more)] == [b"2", b"4"]


def test_an_open_batch_survives_a_restart(both: Both) -> None:
    popper = filled(both)
    first = popped(popper.pop_in_order(queueId=0))
    popper.ack(first[2])
    both.restart()
    popper = Popper(both.client(), "t", popper.group)
    assert popped(popper.pop_in_order(queueId=0)) == []
    for each in first[:2]:
        assert popper.ack(each).code == ResponseCode.SUCCESS
    assert both.services.offsets.query("t", popper.group, 0) == 3
