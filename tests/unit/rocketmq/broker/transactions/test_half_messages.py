"""Halves, ops, and what an outcome puts where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
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
def services(tmp_path: Path, clock: FakeClock) -> Iterator[Services]:
    lives = Lives(tmp_path, clock)
    yield lives.begin("T")
    lives.end()


async def half(services: Services, **more: str) -> StoredMessage:
    draft = Draft("T", 2, b"x", TEXT + properties.join(more), flag=9, sys_flag=5, born_ms=7)
    await services.store.append(half_messages.as_half(draft))
    return stored(services, names.HALF_TOPIC)[-1]


async def test_a_half_is_the_message_in_the_half_topic(services: Services) -> None:
    await half(services)
    found = await half(services, TRAN_PREPARED_QUEUE_OFFSET="77")  # a client does not say that
    assert (found.topic, found.queue, found.queue_offset) == (names.HALF_TOPIC, 0, 1)
    assert (found.body, found.flag, found.sys_flag, found.born_ms) == (b"x", 9, 1, 7)
    assert properties.parse(found.properties) == {
        "TRAN_MSG": "true", "PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "2",
    }  # fmt: skip
    assert half_messages.root_of(found) == 1


def test_a_half_has_room_for_what_checks_add() -> None:
    with pytest.raises(RefusedError, match="longer than"):
        half_messages.as_half(Draft("T", 0, b"x", properties.join({"k": "v" * 32650})))


async def test_a_copy_knows_its_root_and_its_checks(services: Services) -> None:
    await half(services)
    await services.store.append(half_messages.copy_of(await half(services), 1))
    copy = stored(services, names.HALF_TOPIC)[-1]
    await services.store.append(half_messages.copy_of(copy, 2))
    copy = stored(services, names.HALF_TOPIC)[-1]
    assert copy.queue_offset == 3
    assert half_messages.root_of(copy) == 1
    assert properties.value_of(copy.properties, "TRANSACTION_CHECK_TIMES") == "2"
    assert (copy.body, copy.born_ms, copy.flag) == (b"x", 7, 9)


async def test_what_outcomes_put_where(services: Services) -> None:
    found = await half(services)
    committed = half_messages.final(services.topics, services.publisher, found, Outcome.COMMIT)
    assert committed is not None
    assert (committed.topic, committed.queue, committed.sys_flag) == ("T", 2, 9)
    assert committed.prepared_offset == found.physical_offset
    assert committed.properties == found.properties
    given_up = half_messages.final(services.topics, services.publisher, found, Outcome.GIVE_UP)
    assert given_up is not None
    assert given_up.topic == names.GIVEN_UP_HALF_TOPIC
    assert half_messages.final(services.topics, services.publisher, found, Outcome.ROLLBACK) is None


async def test_a_commit_may_be_for_later(services: Services) -> None:
    draft = half_messages.final(
        services.topics, services.publisher, await half(services, DELAY="2"), Outcome.COMMIT
    )
    assert draft is not None
    assert (draft.topic, draft.queue) == (names.SCHEDULE_TOPIC, 1)
    assert properties.value_of(draft.properties, "REAL_TOPIC") == "T"


async def test_ops_are_read_as_they_were_written(services: Services) -> None:
    for op in (Op(5, Outcome.COMMIT, 9), Op(6, Outcome.ROLLBACK, 6), Op(0, Outcome.GIVE_UP, 1)):
        await services.store.append(op.draft(services.store, services.now_ms))
        message = stored(services, names.OP_HALF_TOPIC)[-1]
        assert Op.parse(services.store, message) == op
        assert message.body == b"%d" % op.half
        assert properties.value_of(message.properties, "TAGS") == "d"
        assert Op.parse(services.store, replace(message, body=b"x")) is None
        assert Op.parse(services.store, replace(message, properties="TAGS\x01d")) is None


async def test_messages_of_a_queue_without_the_damaged(services: Services) -> None:
    await store(services, "T", 0, *[b"%d" % number for number in range(300)])
    found = [m.body async for m in half_messages.messages(services.store, "T", 0, 5, 290)]
    assert found == [b"%d" % number for number in range(5, 290)]
    assert [m async for m in half_messages.messages(services.store, "none", 0, 0, 0)] == []
