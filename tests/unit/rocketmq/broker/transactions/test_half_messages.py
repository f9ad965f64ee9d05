"""Halves, ops, and what an outcome puts where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions import half_messages
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import Op
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import Lives, stored

TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


@pytest.fixture
def controller(tmp_path: Path, clock: FakeClock) -> Iterator[Controller]:
    lives = Lives(tmp_path, clock)
    yield lives.begin("T")
    lives.end()


async def half(controller: Controller, **more: str) -> StoredMessage:
    draft = Draft("T", 2, b"x", TEXT + properties.join(more), flag=9, sys_flag=5, born_ms=7)
    await controller.store.append(half_messages.as_half(draft))
    return stored(controller, names.HALF_TOPIC)[-1]


async def test_a_half_is_the_message_in_the_half_topic(controller: Controller) -> None:
    await half(controller)
    found = await half(controller, TRAN_PREPARED_QUEUE_OFFSET="77")  # a client does not say that
    assert (found.topic, found.queue, found.queue_offset) == (names.HALF_TOPIC, 0, 1)
    assert (found.body, found.flag, found.sys_flag, found.born_ms) == (b"x", 9, 1, 7)
    assert properties.parse(found.properties) == {
        "TRAN_MSG": "true", "PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "2",
    }  # fmt: skip
    assert half_messages.root_of(found) == 1


def test_a_half_has_room_for_what_checks_add() -> None:
    with pytest.raises(RefusedError, match="longer than"):
        half_messages.as_half(Draft("T", 0, b"x", properties.join({"k": "v" * 32650})))


async def test_a_copy_knows_its_root_and_its_checks(controller: Controller) -> None:
    await half(controller)
    await controller.store.append(half_messages.copy_of(await half(controller), 1))
    copy = stored(controller, names.HALF_TOPIC)[-1]
    await controller.store.append(half_messages.copy_of(copy, 2))
    copy = stored(controller, names.HALF_TOPIC)[-1]
    assert copy.queue_offset == 3
    assert half_messages.root_of(copy) == 1
    assert properties.value_of(copy.properties, "TRANSACTION_CHECK_TIMES") == "2"
    assert (copy.body, copy.born_ms, copy.flag) == (b"x", 7, 9)


async def test_what_outcomes_put_where(controller: Controller) -> None:
    found = await half(controller)
    committed = half_messages.final(controller, controller.publisher, found, Outcome.COMMIT)
    assert committed is not None
    assert (committed.topic, committed.queue, committed.sys_flag) == ("T", 2, 9)
    assert committed.prepared_offset == found.physical_offset
    assert committed.properties == found.properties
    given_up = half_messages.final(controller, controller.publisher, found, Outcome.GIVE_UP)
    assert given_up is not None
    assert given_up.topic == names.GIVEN_UP_HALF_TOPIC
    assert half_messages.final(controller, controller.publisher, found, Outcome.ROLLBACK) is None


async def test_a_commit_may_be_for_later(controller: Controller) -> None:
    draft = half_messages.final(
        controller, controller.publisher, await half(controller, DELAY="2"), Outcome.COMMIT
    )
    assert draft is not None
    assert (draft.topic, draft.queue) == (names.SCHEDULE_TOPIC, 1)
    assert properties.value_of(draft.properties, "REAL_TOPIC") == "T"


async def test_ops_are_read_as_they_were_written(controller: Controller) -> None:
    for op in (Op(5, Outcome.COMMIT, 9), Op(6, Outcome.ROLLBACK, 6), Op(0, Outcome.GIVE_UP, 1)):
        await controller.store.append(op.draft(controller))
        message = stored(controller, names.OP_HALF_TOPIC)[-1]
        assert Op.parse(controller, message) == op
        assert message.body == b"%d" % op.half
        assert properties.value_of(message.properties, "TAGS") == "d"
        assert Op.parse(controller, replace(message, body=b"x")) is None
        assert Op.parse(controller, replace(message, properties="TAGS\x01d")) is None


async def test_messages_of_a_queue_without_the_damaged(controller: Controller) -> None:
    await store(controller, "T", 0, *[b"%d" % number for number in range(300)])
    found = [m.body async for m in half_messages.messages(controller, "T", 0, 5, 290)]
    assert found == [b"%d" % number for number in range(5, 290)]
    assert [m async for m in half_messages.messages(controller, "none", 0, 0, 0)] == []
