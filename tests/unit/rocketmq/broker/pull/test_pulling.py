"""Pulls without a network: what a queue has for them, those that wait, the offsets of groups."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.rocketmq.broker.acl.check import is_signed
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.processor import UNDER_WAY_MAX
from penstock.rocketmq.broker.pull import arrivals, offsets_api, pull_search
from penstock.rocketmq.broker.pull.pull_search import Pulled, PullHeader, PullSearch
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.protocol.signing import SIGNATURE, signature
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import PLACES, forbid_reading, store
from tests.unit.rocketmq.broker.peers import FakePeer, ask, hand_over, heartbeat, request


def fields(offset: int, **changes: object) -> dict[str, Any]:
    return {"consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": offset,
            "maxMsgNums": 32, "sysFlag": 0, "commitOffset": 0, "subscription": "*",
            "suspendTimeoutMillis": 60_000, **changes}  # fmt: skip


def header(offset: int, **changes: object) -> PullHeader:
    return PullHeader.of(request(Code.PULL_MESSAGE, **fields(offset, **changes)))


async def test_a_search_in_vain_goes_on_behind_what_it_has_looked_at(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_search, "SCAN_MAX", 2)
    await store(services, "T", 0, b"1", b"2", b"3", TAGS="A")
    found = services.search.find(header(0), Subscription.parse("T", "B"))
    assert (found.code, found.next_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)


@pytest.mark.parametrize("changes", [{"queueId": "x"}, {"maxMsgBytes": "many"}])
def test_a_field_that_is_no_number_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BodyError, match="not a number"):
        header(0, **changes)


@pytest.mark.parametrize("field", ["queueOffset", "commitOffset", "suspendTimeoutMillis"])
def test_a_number_that_no_client_could_read_again_is_refused(field: str) -> None:
    most = (1 << 63) - 1
    read = header(0, **{field: most})
    assert most in (getattr(read, name) for name in PullHeader.__struct_fields__)
    with pytest.raises(BodyError, match="more than 64 bits"):
        header(0, **{field: most + 1})


# --- those that wait ------------------------------------------------------------------------------


COMMITS, SUSPENDS, FILTERS = 1, 2, 4


def pull(services: Services, peer: FakePeer, offset: int, flags: int, secret: str = "") -> None:
    asked = request(Code.PULL_MESSAGE, **fields(offset, sysFlag=flags))
    if secret:
        asked.ext = {**(asked.ext or {}), SIGNATURE: signature(asked, secret).decode()}
    hand_over(services, peer.connection, asked)


@pytest.fixture
async def one(services: Services) -> Services:
    """With a topic T of one message."""
    services.topics.put(TopicConfig("T", 1, 1), 1)
    await store(services, "T", 0, b"first")
    return services


async def test_a_pull_that_is_taken_again_commits_its_offset_no_second_time(
    one: Services,
) -> None:
    peer = FakePeer()
    pull(one, peer, 1, COMMITS | SUSPENDS | FILTERS, "a secret")
    assert one.offsets.query("T", "G", 0) == 0  # its consumer is at work on the first
    one.offsets.commit("T", "G", 0, 1)
    peer.has_room = False
    await store(one, "T", 0, b"second")
    peer.has_room = True
    (again,) = peer.again
    assert is_signed(again, "a secret"), "as it was"
    hand_over(one, peer.connection, again)
    assert (peer.codes, one.offsets.query("T", "G", 0)) == ([0], 1)


async def test_a_slave_has_who_is_ahead_of_it_wait_and_sends_nobody_back(one: Services) -> None:
    one.settings.broker_role = "SLAVE"
    peer = FakePeer()
    pull(one, peer, 3, SUSPENDS | FILTERS)
    await store(one, "T", 0, b"1", b"2")  # still not as far as its consumer
    assert (len(one.held_pulls), peer.codes) == (1, [])
    await store(one, "T", 0, b"3")
    assert (len(one.held_pulls), peer.codes) == (0, [0])


async def test_a_message_that_cannot_be_read_keeps_nobody_else_waiting(
    one: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, other = FakePeer(), FakePeer()
    pull(one, held, 1, SUSPENDS | FILTERS)
    pull(one, other, 1, SUSPENDS | FILTERS)

    def failing(*_: object) -> Pulled:
        monkeypatch.undo()
        raise StorageError("Input/output error")

    monkeypatch.setattr(PullSearch, "find", failing)
    await store(one, "T", 0, b"second")
    assert (len(one.held_pulls), len(held.again), held.codes, other.codes) == (0, 1, [], [0])


def subscribe(services: Services, peer: FakePeer, text: str, version: int) -> None:
    body = heartbeat("c1", "G", text=text, kind="SQL92", version=version)
    hand_over(services, peer.connection, request(Code.HEART_BEAT, body))


async def test_a_pull_that_waits_passes_over_nothing_of_a_new_subscription(one: Services) -> None:
    peer = FakePeer()
    subscribe(one, peer, "color = 'red'", 1)
    pull(one, peer, 1, SUSPENDS)
    await store(one, "T", 0, b"green", color="green")
    assert len(one.held_pulls) == 1
    subscribe(one, peer, "color = 'blue'", 2)
    await store(one, "T", 0, b"blue", color="blue")
    (again,) = peer.again
    hand_over(one, peer.connection, again)
    assert (len(one.held_pulls), peer.codes) == (0, [0])


@pytest.mark.parametrize("forbids", PLACES)
async def test_a_pull_that_waits_is_asked_again_whether_it_may(one: Services, forbids: str) -> None:
    peer = FakePeer()
    subscribe(one, peer, "color = 'red'", 1)
    pull(one, peer, 1, SUSPENDS)
    forbid_reading(one, forbids)
    await store(one, "T", 0, b"red", color="red")
    (again,) = peer.again
    with pytest.raises(RefusedError, match=r"forbidden|no permission"):
        hand_over(one, peer.connection, again)
    assert peer.codes == []


# --- waits for a topic ----------------------------------------------------------------------------


async def test_a_message_ends_the_wait_for_its_topic_alone(services: Services) -> None:
    listeners = len(services.store.on_append)
    waits = [asyncio.ensure_future(services.arrivals.wait(topic, 60)) for topic in ("T", "U")]
    await asyncio.sleep(0)
    assert len(services.store.on_append) == listeners + 1
    await store(services, "T", 0, b"x")
    assert await waits[0]
    assert not waits[1].done()
    services.arrivals.wake("U")
    assert await waits[1]
    assert len(services.store.on_append) == listeners  # nobody waits any more


async def test_a_wait_ends_with_its_time_or_where_there_is_no_room(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await services.arrivals.wait("T", 0.001)
    assert arrivals.WAITING_MAX <= UNDER_WAY_MAX // 2, "other answers have room"
    monkeypatch.setattr(arrivals, "WAITING_MAX", 0)
    assert not await services.arrivals.wait("T", 60)


# --- offsets of groups ----------------------------------------------------------------------------


QUEUE: dict[str, Any] = {"topic": "T", "queueId": 0}


async def fill(services: Services, clock: FakeClock) -> list[int]:
    """Three messages in queue 0 of topic T, a second apart; their times in ms."""
    times = []
    for _ in range(3):
        (placed,) = await store(services, "T", 0, b"x")
        times.append(placed.store_ms)
        clock.advance(SECOND)
    return times


def asked(services: Services, code: int, **fields: Any) -> dict[str, str]:
    return ask(services, code, **{**QUEUE, **fields}).ext or {}


def first_offset(services: Services, **more: Any) -> tuple[int, str | None]:
    answer = ask(services, Code.QUERY_CONSUMER_OFFSET, consumerGroup="G", **QUEUE, **more)
    assert answer.ext is not None
    return answer.code, answer.ext.get("offset")


def commit(services: Services, offset: int, **fields: Any) -> None:
    fields = {"consumerGroup": "G", **QUEUE, "commitOffset": offset, **fields}
    answer = ask(services, Code.UPDATE_CONSUMER_OFFSET, **fields)
    assert (answer.code, answer.ext) == (0, {})


async def test_a_new_group_begins_at_0_of_a_young_queue(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # of an unknown topic, too
        assert first_offset(services) == (0, "0")
        assert first_offset(services, setZeroIfNotFound="true") == (0, "0")
        assert first_offset(services, setZeroIfNotFound="false") == (22, None)
        await fill(services, clock)
    monkeypatch.setattr(offsets_api, "YOUNG_BYTES_MAX", 10)
    assert first_offset(services) == (22, None)
    commit(services, 2)
    assert first_offset(services, setZeroIfNotFound="false") == (0, "2")


async def test_a_queue_that_has_lost_messages_is_not_young(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(services, clock)
    monkeypatch.setattr(services.store, "bounds", lambda topic, queue: (1, 5))
    assert first_offset(services) == (22, None)


def test_committing(services: Services) -> None:
    commit(services, 5)
    assert first_offset(services) == (0, "5")
    commit(services, -1)
    assert first_offset(services) == (0, "5"), "-1 says nothing"
    commit(services, 7, topic="no-such-topic", consumerGroup="none", queueId=99)
    with pytest.raises(BodyError, match="commitOffset is missing"):
        ask(services, Code.UPDATE_CONSUMER_OFFSET, consumerGroup="G", **QUEUE)


async def test_searching_by_time(services: Services, clock: FakeClock) -> None:
    def search(ms: int, **fields: Any) -> str:
        return asked(services, Code.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=ms, **fields)["offset"]

    assert search(0) == "0"
    first, second, third = await fill(services, clock)
    for ms, offset in ((0, "0"), (second, "1"), (second + 1, "2"), (first, "0"), (-1, "0")):
        assert search(ms) == offset
    assert search(third + 1) == "2", "4.9 answers the last message"
    assert search(third, queueId=3) == "0"


async def test_bounds_and_the_earliest_time(services: Services, clock: FakeClock) -> None:
    first, *_ = await fill(services, clock)
    for queue, most, earliest in (
        ({}, "3", str(first)), ({"queueId": 3}, "0", "-1"), ({"topic": "none"}, "0", "-1"),
    ):  # fmt: skip
        assert asked(services, Code.GET_MAX_OFFSET, **queue) == {"offset": most}
        assert asked(services, Code.GET_MIN_OFFSET, **queue) == {"offset": "0"}
        assert asked(services, Code.GET_EARLIEST_MSG_STORETIME, **queue) == {"timestamp": earliest}


def test_all_offsets_at_once(services: Services) -> None:
    assert ask(services, Code.GET_ALL_CONSUMER_OFFSET).body == b'{"offsetTable":{}}'
    for topic, queue, offset in (("T", 0, 5), ("T", 3, 7), ("%RETRY%G", 0, 1)):
        services.offsets.commit(topic, "G", queue, offset)
    assert ask(services, Code.GET_ALL_CONSUMER_OFFSET).body == (
        b'{"offsetTable":{"%RETRY%G@G":{0:1},"T@G":{0:5,3:7}}}'
    )
