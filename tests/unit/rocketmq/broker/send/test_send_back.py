"""Messages that come back, and where they go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays.timers import DELAY_MS_MAX
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.broker.state.retry_policy import RetryPolicy
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.peers import FakePeer, answered_later, request


@pytest.fixture
def services(services: Services) -> Services:
    """With the topic where messages wait, a queue for each level."""
    services.topics.put(TopicConfig(names.SCHEDULE_TOPIC, 18, 18), services.now_ms)
    return services


def stored(services: Services, **fields: Any) -> Placed:
    draft = Draft("T", 0, b"body", **{"properties": "TAGS\x01A\x02", "born_ms": 5, **fields})
    return asyncio.run(services.publisher.publish_one(draft))


def send_again(services: Services, offset: int, level: int = 0, **fields: Any) -> Command:
    asked = request(
        RequestCode.CONSUMER_SEND_MSG_BACK, offset=offset, group="G", delayLevel=level, **fields
    )
    return asyncio.run(answered_later(services, FakePeer().connection, asked))


def newest(services: Services, topic: str, queue: int = 0) -> StoredMessage:
    _, end = services.store.bounds(topic, queue)
    message = services.store.message_at(topic, queue, end - 1)
    assert message is not None
    return message


def test_a_retry_waits_in_a_level_and_knows_where_it_comes_from(services: Services) -> None:
    placed = stored(services, flag=9)
    answer = send_again(services, placed.physical_offset)
    assert (answer.code, answer.ext, answer.body) == (0, None, b"")
    message = newest(services, names.SCHEDULE_TOPIC, 2)
    assert (message.body, message.flag, message.born_ms, message.reconsume_times) == (
        b"body", 9, 5, 1,
    )  # fmt: skip
    found = properties.parse(message.properties)
    assert found == {
        "TAGS": "A", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": placed.message_id, "WAIT": "false",
        "DELAY": "3", "REAL_TOPIC": "%RETRY%G", "REAL_QID": "0",
    }  # fmt: skip


def test_each_retry_waits_longer_and_the_origin_stays(services: Services) -> None:
    first = "0" * 32
    text = properties.join({"RETRY_TOPIC": "First", "ORIGIN_MESSAGE_ID": first, "DELAY": "4"})
    placed = stored(services, properties=text, reconsume_times=2)
    send_again(services, placed.physical_offset)
    found = properties.parse(newest(services, names.SCHEDULE_TOPIC, 4).properties)
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"]) == ("First", first)
    send_again(services, placed.physical_offset, level=1)
    assert newest(services, names.SCHEDULE_TOPIC, 0).reconsume_times == 3
    send_again(services, placed.physical_offset, level=(1 << 31) - 1)  # as long as it can be
    assert newest(services, names.SCHEDULE_TOPIC, 17).reconsume_times == 3


def test_a_group_s_own_delays(services: Services) -> None:
    """Also the second time, when the message has waited for a time before."""
    services.topics.put(TopicConfig(names.TIMER_TOPIC, 1, 1), services.now_ms)
    policy = RetryPolicy("EXPONENTIAL", (1500, 10 * DELAY_MS_MAX, 100_000_000))
    services.groups.put(GroupConfig("G", group_retry_policy=policy), services.now_ms)
    placed = stored(services, properties="TIMER_DELAY_MS\x019\x02TIMER_OUT_MS\x015\x02")
    send_again(services, placed.physical_offset)
    found = properties.parse(newest(services, names.TIMER_TOPIC).properties)
    assert (found["TIMER_DELAY_MS"], found["REAL_TOPIC"]) == ("1500", "%RETRY%G")
    assert found["TIMER_OUT_MS"] == str(services.now_ms + 1500)
    again = stored(services, reconsume_times=1)
    send_again(services, again.physical_offset)
    found = properties.parse(newest(services, names.TIMER_TOPIC).properties)
    assert found["TIMER_DELAY_MS"] == str(DELAY_MS_MAX), "no more than a message may wait"
    send_again(services, again.physical_offset, level=1)
    assert newest(services, names.SCHEDULE_TOPIC, 0).reconsume_times == 2, "the client's word"


@pytest.mark.parametrize(
    ("reconsumed", "level", "fields"),
    [(16, 0, {}), (0, -1, {}), (0, 0, {"maxReconsumeTimes": 0}), (3, 5, {"maxReconsumeTimes": 3})],
)
def test_dead_letters(
    services: Services, reconsumed: int, level: int, fields: dict[str, int]
) -> None:
    placed = stored(services, reconsume_times=reconsumed)
    assert send_again(services, placed.physical_offset, level, **fields).code == 0
    message = newest(services, "%DLQ%G")
    assert message.reconsume_times == reconsumed + 1
    found = properties.parse(message.properties)
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"]) == ("T", placed.message_id)
    assert "DELAY" not in found
    counted = services.stats.view("DLQ_PUT_NUMS", "T@G")
    assert counted is not None


def test_old_clients_cannot_set_how_often(services: Services) -> None:
    placed = stored(services)
    asked = request(36, version=120, offset=placed.physical_offset, group="G", delayLevel=0,
                    maxReconsumeTimes=0)  # fmt: skip
    assert asyncio.run(answered_later(services, FakePeer().connection, asked)).code == 0
    assert services.store.bounds("%DLQ%G", 0) == (0, 0)
    assert newest(services, names.SCHEDULE_TOPIC, 2).reconsume_times == 1


def test_a_group_s_own_limit(services: Services) -> None:
    services.groups.put(GroupConfig("G", retry_max_times=1), services.now_ms)
    placed = stored(services, reconsume_times=1)
    send_again(services, placed.physical_offset)
    assert newest(services, "%DLQ%G").reconsume_times == 2


def test_a_group_without_retry_queues_wants_none(services: Services) -> None:
    services.groups.put(GroupConfig("G", retry_queue_nums=0), services.now_ms)
    assert send_again(services, 0).code == 0
    assert services.topics.get("%RETRY%G") is None


def test_retries_are_spread_over_the_retry_queues(services: Services) -> None:
    services.groups.put(GroupConfig("G", retry_queue_nums=2), services.now_ms)
    queues = set()
    for _ in range(2):
        send_again(services, stored(services).physical_offset)
        found = properties.parse(newest(services, names.SCHEDULE_TOPIC, 2).properties)
        queues.add(found["REAL_QID"])
    assert queues == {"0", "1"}


@pytest.mark.parametrize("level", [0, -1])
def test_properties_without_room(services: Services, level: int) -> None:
    placed = stored(services, properties=properties.join({"k": "v" * 32_750}))
    with pytest.raises(RefusedError, match="leave no room") as refusal:
        send_again(services, placed.physical_offset, level)
    assert refusal.value.code == 13


def test_what_is_refused(services: Services) -> None:
    placed = stored(services)
    for offset in (99_999_999, -1, placed.physical_offset + 1):
        with pytest.raises(RefusedError, match=f"look message by offset failed, {offset}"):
            send_again(services, offset)
    services.topics.configs["%RETRY%G"].perm = 4
    with pytest.raises(RefusedError, match=r"topic\[%RETRY%G\] sending message is forbidden"):
        send_again(services, placed.physical_offset)
    services.settings.broker_permission = 4
    with pytest.raises(RefusedError, match="sending message is forbidden") as refusal:
        send_again(services, placed.physical_offset)
    assert refusal.value.code == 16
    services.settings.auto_create_subscription_group = False
    services.groups.delete("G", 0)
    with pytest.raises(RefusedError, match="subscription group not exist, G") as refusal:
        send_again(services, placed.physical_offset)
    assert refusal.value.code == 26
