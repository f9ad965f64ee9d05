"""Pulls that wait, beyond what ``test_pull`` shows of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.pull import long_poll as held_pulls
from penstock.rocketmq.broker.pull import pull_search
from penstock.rocketmq.protocol import frames
from tests.programs.rocketmq.broker.pull.test_pulling import (
    FOR_LONG_MS,
    PULL,
    pull,
    pull_fields,
    send,
    wait_until_held,
)
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]


def wait_for_more(client: RawClient, topic: str, **fields: object) -> int:
    """Send a pull that will be held; its opaque."""
    asked: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": FOR_LONG_MS, **fields}
    request = client.request(PULL, **pull_fields(topic, 0, 1, **asked))
    client.send(frames.encode(request))
    return request.opaque


def test_all_who_wait_get_the_message(rocket: RocketBroker, connect: Connect) -> None:
    producer = connect()
    send(producer, "TopicH", b"first")
    consumers = [connect() for _ in range(3)]
    opaques = [wait_for_more(each, "TopicH") for each in consumers]
    wait_until_held(rocket, 3)
    send(producer, "TopicH", b"second")
    answers = [each.next_command() for each in consumers]
    assert [a.code for a in answers] == [0, 0, 0]
    assert [a.opaque for a in answers] == opaques
    wait_until_held(rocket, 0)


def test_beyond_the_bound_a_pull_is_answered_at_once(
    rocket: RocketBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_pulls, "HELD_MAX", 1)
    client = connect()
    send(client, "TopicH", b"first")
    wait_for_more(client, "TopicH")
    wait_until_held(rocket, 1)
    answer, _ = pull(connect(), "TopicH", 0, 1, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    assert answer.code == 19


def test_who_waits_for_a_topic_that_is_deleted_is_answered(
    rocket: RocketBroker, connect: Connect, loop_thread: LoopThread
) -> None:
    client = connect()
    send(client, "TopicH", b"first")
    opaque = wait_for_more(client, "TopicH")
    wait_until_held(rocket, 1)
    loop_thread.run(rocket.services.store.delete("TopicH"))
    answer = client.next_command()
    assert (answer.opaque, answer.code) == (opaque, 19)
    wait_until_held(rocket, 0)


def test_without_long_polling_a_pull_waits_only_shortly(
    rocket: RocketBroker, connect: Connect
) -> None:
    rocket.settings.long_polling_enable = False
    rocket.settings.short_polling_time_mills = 100
    client = connect()
    send(client, "TopicH", b"first")
    start = time.monotonic()
    answer, _ = pull(client, "TopicH", 0, 1, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    assert answer.code == 19
    assert time.monotonic() - start > 0.08


async def _time_is_up(rocket: RocketBroker) -> None:
    """End the wait of all that are held, as their timers do."""
    held_pulls = rocket.services.held_pulls
    for place, waiting in list(held_pulls._held.items()):
        for key in list(waiting):
            held_pulls._give_up(place, key)


def test_what_is_filtered_moves_the_offset_of_who_waits(
    rocket: RocketBroker, connect: Connect, loop_thread: LoopThread
) -> None:
    client = connect()
    send(client, "TopicH", b"first")
    waiting = connect()
    wait_for_more(waiting, "TopicH", subscription="TagB")
    wait_until_held(rocket, 1)
    for _ in range(3):
        send(client, "TopicH", b"not wanted", i="TAGS\x01TagA\x02")
    wait_until_held(rocket, 1)
    loop_thread.run(_time_is_up(rocket))
    answer = waiting.next_command()
    assert answer.code == 19
    assert answer.ext is not None
    assert (answer.ext["nextBeginOffset"], answer.ext["maxOffset"]) == ("4", "4")


def test_who_waits_asks_again_when_more_has_come_than_one_search_looks_at(
    rocket: RocketBroker,
    connect: Connect,
    loop_thread: LoopThread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull_search, "SCAN_MAX", 2)
    client = connect()
    send(client, "TopicH", b"first")
    waiting = connect()
    wait_for_more(waiting, "TopicH", subscription="TagB")
    wait_until_held(rocket, 1)
    loop_thread.run(store(rocket.services, "TopicH", 0, b"1", b"2", TAGS="TagA"))
    wait_until_held(rocket, 1)  # it has looked at all
    loop_thread.run(store(rocket.services, "TopicH", 0, b"3", b"4", b"5", TAGS="TagA"))
    answer = waiting.next_command()
    assert (answer.code, (answer.ext or {})["nextBeginOffset"]) == (20, "5")
