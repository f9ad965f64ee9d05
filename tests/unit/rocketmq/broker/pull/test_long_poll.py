"""Pulls that wait, without a network: what becomes of them on a slave, in a crowd, and when their
group may have something else.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.acl.check import is_signed
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pull.pull_search import Pulled, PullSearch
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.protocol.signing import SIGNATURE, signature
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.forbidding import PLACES, forbid_reading
from tests.unit.rocketmq.broker.peers import FakePeer, hand_over, heartbeat, request

COMMITS, SUSPENDS, FILTERS = 1, 2, 4


class Puller(FakePeer):
    """A connection that notes which requests it is to take again, and what it is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Command] = []
        self.answers = 0

    def take_again(self, request: Command) -> None:
        self.again.append(request)

    def send_large(self, pieces: tuple[bytes, ...], nbytes: int) -> None:
        self.answers += 1


def pull(services: Services, peer: Puller, offset: int, flags: int) -> None:
    fields: dict[str, Any] = {
        "consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": flags, "commitOffset": 0, "subscription": "*",
        "suspendTimeoutMillis": 60_000,
    }  # fmt: skip
    hand_over(services, peer.connection, request(RequestCode.PULL_MESSAGE, **fields))


@pytest.fixture
async def one(services: Services) -> Services:
    """With a topic T of one message."""
    services.topics.put(TopicConfig("T", 1, 1), 1)
    await store(services, "T", 0, b"first")
    return services


async def test_a_pull_that_is_taken_again_commits_its_offset_no_second_time(
    one: Services,
) -> None:
    peer = Puller()
    pull(one, peer, 1, COMMITS | SUSPENDS | FILTERS)
    assert one.offsets.query("T", "G", 0) == 0  # its consumer is at work on the first
    one.offsets.commit("T", "G", 0, 1)
    peer.has_room = False
    await store(one, "T", 0, b"second")
    peer.has_room = True
    (again,) = peer.again
    hand_over(one, peer.connection, again)
    assert (peer.answers, one.offsets.query("T", "G", 0)) == (1, 1)


async def test_a_pull_that_is_taken_again_is_signed_as_it_was(one: Services) -> None:
    peer = Puller()
    fields: dict[str, Any] = {
        "consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": 1, "maxMsgNums": 32,
        "sysFlag": COMMITS | SUSPENDS | FILTERS, "commitOffset": 0, "subscription": "*",
        "suspendTimeoutMillis": 60_000,
    }  # fmt: skip
    asked = request(RequestCode.PULL_MESSAGE, **fields)
    assert asked.ext is not None
    asked.ext[SIGNATURE] = signature(asked, "a secret").decode()
    hand_over(one, peer.connection, asked)
    peer.has_room = False
    await store(one, "T", 0, b"second")
    (again,) = peer.again
    assert is_signed(again, "a secret")


async def test_a_slave_has_who_is_ahead_of_it_wait_and_sends_nobody_back(one: Services) -> None:
    one.settings.broker_role = "SLAVE"
    peer = Puller()
    pull(one, peer, 3, SUSPENDS | FILTERS)
    await store(one, "T", 0, b"1", b"2")  # still not as far as its consumer
    assert (len(one.held_pulls), peer.answers) == (1, 0)
    await store(one, "T", 0, b"3")
    assert (len(one.held_pulls), peer.answers) == (0, 1)


async def test_a_message_that_cannot_be_read_keeps_nobody_else_waiting(
    one: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, other = Puller(), Puller()
    pull(one, held, 1, SUSPENDS | FILTERS)
    pull(one, other, 1, SUSPENDS | FILTERS)

    def failing(*_: object) -> Pulled:
        monkeypatch.undo()
        raise StorageError("Input/output error")

    monkeypatch.setattr(PullSearch, "find", failing)
    await store(one, "T", 0, b"second")
    assert (len(one.held_pulls), len(held.again), held.answers, other.answers) == (0, 1, 0, 1)


def subscribe(services: Services, peer: Puller, text: str, version: int) -> None:
    body = heartbeat("c1", "G", text=text, kind="SQL92", version=version)
    hand_over(services, peer.connection, request(RequestCode.HEART_BEAT, body))


async def test_a_pull_that_waits_passes_over_nothing_of_a_new_subscription(one: Services) -> None:
    peer = Puller()
    subscribe(one, peer, "color = 'red'", 1)
    pull(one, peer, 1, SUSPENDS)
    await store(one, "T", 0, b"green", color="green")
    assert len(one.held_pulls) == 1
    subscribe(one, peer, "color = 'blue'", 2)
    await store(one, "T", 0, b"blue", color="blue")
    (again,) = peer.again
    hand_over(one, peer.connection, again)
    assert (len(one.held_pulls), peer.answers) == (0, 1)


@pytest.mark.parametrize("forbids", PLACES)
async def test_a_pull_that_waits_is_asked_again_whether_it_may(one: Services, forbids: str) -> None:
    peer = Puller()
    subscribe(one, peer, "color = 'red'", 1)
    pull(one, peer, 1, SUSPENDS)
    forbid_reading(one, forbids)
    await store(one, "T", 0, b"red", color="red")
    (again,) = peer.again
    with pytest.raises(RefusedError, match=r"forbidden|no permission"):
        hand_over(one, peer.connection, again)
    assert peer.answers == 0
