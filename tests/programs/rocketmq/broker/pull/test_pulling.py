"""Pulls through real connections, as RocketMQ spec 4.3 tables them: at once, held, and refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.pull import long_poll as held_pulls
from penstock.rocketmq.broker.pull import pull_search
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Serialization
from penstock.rocketmq.protocol.messages.message import decode_all
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import HELD, begin_pull, pull, pull_fields, send, wait_until_held

Connect = Callable[[], RawClient]


def test_what_was_sent_is_pulled(client: RawClient) -> None:
    sent = [send(client, "TopicA", b"body %d" % n, queue=1).ext or {} for n in range(3)]
    assert [each["queueOffset"] for each in sent] == ["0", "1", "2"]
    assert all(each["queueId"] == "1" and len(each["msgId"]) == 32 for each in sent)
    assert sent[0]["MSG_REGION"] == "DefaultRegion"
    answer, messages = pull(client, "TopicA", 1, 0)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3",
    }  # fmt: skip
    assert [m.body for m in messages] == [b"body 0", b"body 1", b"body 2"]
    assert [m.offset_id for m in messages] == [each["msgId"] for each in sent]
    assert messages[0].properties == "KEYS\x01k\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
    assert messages[0].born_host.port > 0


@pytest.mark.parametrize("serialization", list(Serialization))
def test_both_serialisations_and_the_long_names(
    client: RawClient, serialization: Serialization
) -> None:
    answer = client.ask(
        Code.SEND_MESSAGE, b"x", producerGroup="PG", topic="TopicL", defaultTopic="TBW102",
        defaultTopicQueueNums=2, queueId=-1, sysFlag=0, bornTimestamp=5, flag=7,
        serialization_=serialization,
    )  # fmt: skip
    assert (answer.code, answer.serialization) == (0, serialization)
    queue = answer.int32("queueId")
    assert queue in (0, 1)
    fields = pull_fields("TopicL", queue, 0)
    pulled = client.ask(Code.PULL_MESSAGE, serialization_=serialization, **fields)
    (message,) = decode_all(pulled.body)
    assert (pulled.serialization, message.flag, message.born_ms) == (serialization, 7, 5)


@pytest.mark.parametrize(
    ("queue", "offset", "code", "remark", "next_offset"),
    [
        (1, 0, 19, "NO_MESSAGE_IN_QUEUE", 0),
        (1, 5, 21, "NO_MESSAGE_IN_QUEUE", 0),
        (0, 1, 19, "OFFSET_OVERFLOW_ONE", 1),
        (0, 9, 21, "OFFSET_OVERFLOW_BADLY", 1),
        (0, -3, 21, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_the_codes_when_there_is_nothing(
    client: RawClient, queue: int, offset: int, code: int, remark: str, next_offset: int
) -> None:
    send(client, "TopicN")
    answer, _ = pull(client, "TopicN", queue, offset)
    found = (answer.code, answer.remark, answer.int64("nextBeginOffset"))
    assert found == (code, remark, next_offset)


def test_tags_are_filtered_and_the_offset_moves_on(client: RawClient) -> None:
    for tag in ("TagA", "TagB", "TagA"):
        send(client, "TopicT", tag.encode(), i=f"TAGS\x01{tag}\x02")
    answer, messages = pull(client, "TopicT", 0, 0, subscription="TagB || TagC")
    assert [m.body for m in messages] == [b"TagB"]
    assert answer.int64("nextBeginOffset") == 3
    answer, messages = pull(client, "TopicT", 0, 2, subscription="TagB")
    assert (answer.code, answer.remark, messages) == (20, "NO_MATCHED_MESSAGE", [])
    assert answer.int64("nextBeginOffset") == 3
    sql = {"subscription": "TAGS IN ('TagA')", "expressionType": "SQL92"}
    _, messages = pull(client, "TopicT", 0, 0, **sql)
    assert [m.body for m in messages] == [b"TagA", b"TagA"]
    assert pull(client, "TopicT", 0, 0, **{**sql, "subscription": "a >"})[0].code == 23


def test_sizes_and_numbers_bound_a_pull(client: RawClient) -> None:
    for _ in range(40):
        send(client, "TopicS", b"x" * 20_000)
    answer, messages = pull(client, "TopicS", 0, 0)
    assert len(answer.body) <= 256 * 1024
    assert 10 <= len(messages) <= 13
    assert len(pull(client, "TopicS", 0, 0, maxMsgNums=3)[1]) == 3
    assert len(pull(client, "TopicS", 0, 0, maxMsgBytes=1)[1]) == 1


def test_offsets_are_committed_with_a_pull_and_one_way(
    rocket: RocketBroker, client: RawClient
) -> None:
    send(client, "TopicC")
    pull(client, "TopicC", 0, 0, sysFlag=5, commitOffset=1)
    assert rocket.services.offsets.query("TopicC", "CG", 0) == 1
    queue: dict[str, Any] = {"consumerGroup": "CG", "topic": "TopicC", "queueId": 0}
    client.tell(Code.UPDATE_CONSUMER_OFFSET, commitOffset=3, **queue)
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, **queue).ext == {"offset": "3"}
    assert client.requests == []


def test_who_may_not_pull_is_told_why(rocket: RocketBroker, client: RawClient) -> None:
    send(client, "TopicF")
    for topic, queue, flags, code in (
        ("unknown", 0, 4, 17), ("TopicF", 4, 4, 1), ("TopicF", -1, 4, 1), ("TopicF", 0, 0, 24),
    ):  # fmt: skip
        assert pull(client, topic, queue, 0, sysFlag=flags)[0].code == code
    assert client.ask(Code.PULL_MESSAGE, topic="TopicF").code == 1
    rocket.services.topics.configs["TopicF"].perm = 2
    assert pull(client, "TopicF", 0, 0)[0].code == 16


# --- pulls that are held --------------------------------------------------------------------------


@pytest.fixture
def first(client: RawClient) -> None:
    """Topic H has a message."""
    send(client, "H", b"first")


holding = pytest.mark.usefixtures("first")


@holding
def test_a_pull_waits_for_a_message_that_it_wants(
    rocket: RocketBroker, client: RawClient, connect: Connect
) -> None:
    waiting = connect()
    request = begin_pull(waiting, "H", subscription="TagB")
    wait_until_held(rocket, 1)
    send(client, "H", b"not wanted", i="TAGS\x01TagA\x02")
    send(client, "H", b"wanted", i="TAGS\x01TagB\x02")
    answer = waiting.answer_to(request)
    assert answer.code == 0
    assert [m.body for m in decode_all(answer.body)] == [b"wanted"]
    assert answer.int64("nextBeginOffset") == 3


@holding
@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_pull_that_waits_in_vain_is_told_so(
    rocket: RocketBroker, client: RawClient, is_enabled: bool
) -> None:
    """Only shortly where long polling is off."""
    rocket.settings.long_polling_enable = is_enabled
    rocket.settings.short_polling_time_mills = 100
    start = time.monotonic()
    times = {"suspendTimeoutMillis": 200} if is_enabled else {}
    answer, _ = pull(client, "H", 0, 1, **{**HELD, **times})
    assert time.monotonic() - start > (0.15 if is_enabled else 0.08)
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")


@holding
def test_pulls_of_a_connection_that_ends_are_forgotten(
    rocket: RocketBroker, connect: Connect
) -> None:
    waiting = connect()
    begin_pull(waiting, "H")
    wait_until_held(rocket, 1)
    waiting.close()
    wait_until_held(rocket, 0)


@holding
def test_all_who_wait_get_the_message(
    rocket: RocketBroker, client: RawClient, connect: Connect
) -> None:
    consumers = [connect() for _ in range(3)]
    requests = [begin_pull(each, "H") for each in consumers]
    wait_until_held(rocket, 3)
    send(client, "H", b"second")
    for consumer, request in zip(consumers, requests, strict=True):
        assert consumer.answer_to(request).code == 0
    wait_until_held(rocket, 0)


@holding
def test_beyond_the_bound_a_pull_is_answered_at_once(
    rocket: RocketBroker, client: RawClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_pulls, "HELD_MAX", 1)
    begin_pull(client, "H")
    wait_until_held(rocket, 1)
    assert pull(connect(), "H", 0, 1, **HELD)[0].code == 19


@holding
def test_who_waits_for_a_topic_that_is_deleted_is_answered(
    rocket: RocketBroker, client: RawClient, loop_thread: LoopThread
) -> None:
    request = begin_pull(client, "H")
    wait_until_held(rocket, 1)
    loop_thread.run(rocket.services.store.delete("H"))
    assert client.answer_to(request).code == 19
    wait_until_held(rocket, 0)


async def _time_is_up(rocket: RocketBroker) -> None:
    """End the wait of all that are held, as their timers do."""
    held_pulls = rocket.services.held_pulls
    for place, waiting in list(held_pulls._held.items()):
        for key in list(waiting):
            held_pulls._give_up(place, key)


@holding
def test_what_is_filtered_moves_the_offset_of_who_waits(
    rocket: RocketBroker, client: RawClient, connect: Connect, loop_thread: LoopThread
) -> None:
    waiting = connect()
    request = begin_pull(waiting, "H", subscription="TagB")
    wait_until_held(rocket, 1)
    for _ in range(3):
        send(client, "H", b"not wanted", i="TAGS\x01TagA\x02")
    wait_until_held(rocket, 1)
    loop_thread.run(_time_is_up(rocket))
    answer = waiting.answer_to(request)
    assert (answer.code, answer.int64("nextBeginOffset"), answer.int64("maxOffset")) == (19, 4, 4)


@holding
def test_who_waits_asks_again_when_more_has_come_than_one_search_looks_at(
    rocket: RocketBroker, client: RawClient, loop_thread: LoopThread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(pull_search, "SCAN_MAX", 2)
    request = begin_pull(client, "H", subscription="TagB")
    wait_until_held(rocket, 1)
    loop_thread.run(store(rocket.services, "H", 0, b"1", b"2", TAGS="TagA"))
    wait_until_held(rocket, 1)  # it has looked at all
    loop_thread.run(store(rocket.services, "H", 0, b"3", b"4", b"5", TAGS="TagA"))
    answer = client.answer_to(request)
    assert (answer.code, answer.int64("nextBeginOffset")) == (20, 5)
