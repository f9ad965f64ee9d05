"""Offsets of a group, and those at which it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.held import HeldQueue
from penstock.rocketmq.client.consume.offsets import (
    BrokerOffsets,
    Commits,
    LocalOffsets,
    QueueBounds,
    Start,
    server_of,
)
from penstock.rocketmq.client.errors import BrokerError, NotConnected
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub

QUEUE, RETRY = MessageQueue("a", 1, "T"), MessageQueue("a", 0, "%RETRY%G")
CONFIG = Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1")
QUEUES = [MessageQueue("a", number, "T") for number in range(3)]


def made(**options: object) -> tuple[MemoryHub, Brokers]:
    hub = MemoryHub(replace(CONFIG, **options))  # type: ignore[arg-type]
    brokers = Brokers(hub, "T")
    brokers.put(QUEUE, b"x", b"y", b"z")
    return hub, brokers


@pytest.mark.parametrize(
    ("where", "offset"),
    [("FIRST_OFFSET", 0), ("LAST_OFFSET", 3), ("TIMESTAMP", 1)],
)
def test_a_new_group_begins_where_it_is_told(where: str, offset: int) -> None:
    hub, brokers = made(consume_from_where=f"CONSUME_FROM_{where}")
    start = Start(hub, BrokerOffsets(hub, "G"))
    assert hub.does(Job(start.of(QUEUE))) == offset
    assert hub.does(Job(start.of(RETRY))) == 0
    brokers.offsets[QUEUE] = 2
    assert hub.does(Job(start.of(QUEUE))) == 2


def test_a_time_is_half_an_hour_ago_unless_it_is_given() -> None:
    for given, asked in ((0.0, 1_700_000_000 - 1800), (5.0, 5)):
        hub, _ = made(consume_from_where="CONSUME_FROM_TIMESTAMP", consume_timestamp=given)
        hub.does(Job(Start(hub, BrokerOffsets(hub, "G")).of(QUEUE)))
        (request,) = hub.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
        assert request.int64("timestamp") == asked * 1000


def test_brokers_keep_offsets() -> None:
    hub, brokers = made()
    offsets = BrokerOffsets(hub, "G")
    assert hub.does(Job(offsets.read(QUEUE))) is None
    hub.does(Job(offsets.write({QUEUE: 2})))
    assert brokers.offsets == {QUEUE: 2}
    assert hub.does(Job(offsets.read(QUEUE))) == 2
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _, request: request.answer(1, "no")
    with pytest.raises(BrokerError, match="group G"):
        hub.does(Job(offsets.read(QUEUE)))


def test_bounds_of_a_queue() -> None:
    hub, _ = made()
    bounds = QueueBounds(hub)
    found = [hub.does(Job(ask(QUEUE))) for ask in (bounds.first, bounds.end)]
    assert found == [0, 3]
    assert hub.does(Job(bounds.at(QUEUE, 5.0))) == 1
    with pytest.raises(NotConnected, match="not exist"):
        hub.does(Job(server_of(hub, QUEUE._replace(brokerName="z"))))


def test_a_broadcast_consumer_keeps_them_in_a_file(tmp_path: Path) -> None:
    hub, _ = made(offset_store_path=str(tmp_path))
    offsets = LocalOffsets(hub, "G")
    assert hub.does(Job(offsets.read(QUEUE))) is None
    hub.does(Job(offsets.write({QUEUE: 2})))
    hub.does(Job(offsets.write({RETRY: 5})))
    again = LocalOffsets(hub, "G")
    assert hub.does(Job(again.read(QUEUE))) == 2
    assert again.path == tmp_path / "10.0.0.1@DEFAULT" / "G" / "offsets.json"
    assert list(again.path.parent.iterdir()) == [again.path]


def test_a_user_without_a_home_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    hub, _ = made()
    with pytest.raises(ConfigError, match="set offset_store_path"):
        LocalOffsets(hub, "G")


@pytest.mark.parametrize("text", ["", "[]", '{"offsetTable":{"x":1}}', '{"offsetTable":5}'])
def test_a_damaged_file_is_told_and_begins_again(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    hub, _ = made(offset_store_path=str(tmp_path))
    offsets = LocalOffsets(hub, "G")
    offsets.path.parent.mkdir(parents=True)
    offsets.path.write_text(text)
    assert hub.does(Job(offsets.read(QUEUE))) is None
    assert "readLocalOffset" in caplog.text


class Store:
    """Offsets that may not be writable."""

    def __init__(self) -> None:
        self.written: list[dict[MessageQueue, int]] = []
        self.fails = False
        self.answers: list[Promise[None]] = []

    async def read(self, queue: MessageQueue) -> int | None:
        return None

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        if self.fails:
            raise NotConnected("a:1", "gone")
        self.written.append(offsets)
        if self.answers:
            await self.answers.pop()


def test_only_what_has_changed_is_written() -> None:
    hub, store = MemoryHub(), Store()
    commits = Commits(hub, "G", store)
    first, second = (HeldQueue(queue, 5) for queue in QUEUES[:2])
    hub.does(Job(commits.write([first, second])))
    hub.does(Job(commits.write([first, second])))
    second.next_offset = 7
    hub.does(Job(commits.write([first, second])))
    assert store.written == [{QUEUES[0]: 5}, {QUEUES[1]: 5}, {QUEUES[1]: 7}]


def test_one_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    hub, store = MemoryHub(), Store()
    commits, held = Commits(hub, "G", store), HeldQueue(QUEUES[0], 5)
    store.fails = True
    hub.does(Job(commits.write([held])))
    assert "[G] updateConsumeOffsetToBroker exception: a:1: gone" in caplog.text
    store.fails = False
    hub.does(Job(commits.write([held])))
    assert store.written == [{QUEUES[0]: 5}]


def test_the_first_commit_of_a_topic_is_alone() -> None:
    """Java's broker may lose one of two that make the group's table."""
    hub, store = MemoryHub(), Store()
    commits, answer = Commits(hub, "G", store), Promise[None]()
    store.answers.append(answer)
    job = Job(commits.write([HeldQueue(queue, 5) for queue in QUEUES]))
    assert store.written == [{QUEUES[0]: 5}]
    answer.keep(None)
    hub.does(job)
    assert store.written == [{queue: 5} for queue in QUEUES]
    store.answers.append(Promise[None]())
    Job(commits.write([HeldQueue(queue, 6) for queue in QUEUES]))
    assert store.written[3:] == [{queue: 6} for queue in QUEUES]
