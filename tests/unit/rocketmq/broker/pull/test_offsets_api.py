"""Offsets, as clients ask for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.pull import offsets_api
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, request

PEER = FakePeer().connection
QUEUE: dict[str, Any] = {"topic": "T", "queueId": 0}


def stored(services: Services, clock: FakeClock, count: int) -> list[int]:
    """Messages in queue 0 of topic T, a second apart; their times in ms."""

    async def put() -> list[int]:
        times = []
        for _ in range(count):
            placed = await services.publisher.publish_one(Draft("T", 0, b"x"))
            times.append(placed.store_ms)
            clock.advance(SECOND)
        return times

    return asyncio.run(put())


def first_offset(services: Services, **more: Any) -> tuple[int, str | None]:
    asked = request(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="G", **QUEUE, **more)
    answer = answered(services, PEER, asked)
    assert answer.ext is not None
    return answer.code, answer.ext.get("offset")


def commit(services: Services, offset: int, **fields: Any) -> int:
    fields = {"consumerGroup": "G", **QUEUE, "commitOffset": offset, **fields}
    answer = answered(services, PEER, request(15, **fields))
    assert answer.ext == {}
    return answer.code


def test_a_new_group_begins_at_0_of_a_young_queue(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_offset(services) == (0, "0")  # unknown
    assert first_offset(services, setZeroIfNotFound="false") == (22, None)
    stored(services, clock, 3)
    assert first_offset(services) == (0, "0")
    assert first_offset(services, setZeroIfNotFound="true") == (0, "0")
    assert first_offset(services, setZeroIfNotFound="false") == (22, None)
    monkeypatch.setattr(offsets_api, "YOUNG_BYTES_MAX", 10)
    assert first_offset(services) == (22, None)
    commit(services, 2)
    assert first_offset(services, setZeroIfNotFound="false") == (0, "2")


def test_a_queue_that_has_lost_messages_is_not_young(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(services, clock, 1)
    monkeypatch.setattr(services.store, "bounds", lambda topic, queue: (1, 5))
    assert first_offset(services) == (22, None)


def test_committing(services: Services) -> None:
    assert commit(services, 5) == 0
    assert first_offset(services) == (0, "5")
    assert commit(services, -1) == 0
    assert first_offset(services) == (0, "5"), "-1 says nothing"
    assert commit(services, 7, topic="no-such-topic", consumerGroup="none", queueId=99) == 0
    with pytest.raises(BodyError, match="commitOffset is missing"):
        hand_over(services, PEER, request(15, consumerGroup="G", **QUEUE))


def test_searching_by_time(services: Services, clock: FakeClock) -> None:
    def search(ms: int, **queue: Any) -> str:
        asked = request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=ms, **(queue or QUEUE))
        answer = answered(services, PEER, asked)
        assert answer.ext is not None
        return answer.ext["offset"]

    assert search(0) == "0"
    times = stored(services, clock, 3)
    assert search(0) == "0"
    assert search(times[1]) == "1"
    assert search(times[1] + 1) == "2"
    assert search(times[2] + 1) == "2", "4.9 answers the last message"
    assert search(times[2], topic="T", queueId=3) == "0"
    assert search(-1) == "0"


def test_bounds_and_the_earliest_time(services: Services, clock: FakeClock) -> None:
    times = stored(services, clock, 3)
    for queue, most, least, earliest in (
        (QUEUE, "3", "0", str(times[0])),
        ({"topic": "T", "queueId": 3}, "0", "0", "-1"),
        ({"topic": "none", "queueId": 0}, "0", "0", "-1"),
    ):
        assert answered(services, PEER, request(30, **queue)).ext == {"offset": most}
        assert answered(services, PEER, request(31, **queue)).ext == {"offset": least}
        answer = answered(services, PEER, request(32, **queue))
        assert answer.ext == {"timestamp": earliest}


def test_all_offsets_at_once(services: Services) -> None:
    assert answered(services, PEER, request(43)).body == b'{"offsetTable":{}}'
    services.offsets.commit("T", "G", 0, 5)
    services.offsets.commit("T", "G", 3, 7)
    services.offsets.commit("%RETRY%G", "G", 0, 1)
    assert answered(services, PEER, request(43)).body == (
        b'{"offsetTable":{"%RETRY%G@G":{0:1},"T@G":{0:5,3:7}}}'
    )
