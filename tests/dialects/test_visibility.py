"""At the level ``fsync`` a message is invisible until its sync has ended, in both dialects.

Otherwise a power cut could take a message that somebody has seen, and give its id and offset to
another one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsLogFile
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import SECONDS, Both, received

QUEUES = 2
OLD = (b"zero", b"one")
SUSPEND_AND_SUBSCRIPTION = 6


class Syncs:
    """The syncs of logs, held on command; notes the part of each file that survives a power cut."""

    def __init__(self) -> None:
        self.durable: dict[str, bytes] = {}
        self._may_end = threading.Event()
        self._may_end.set()
        self._waits = threading.Event()

    def sync(self, file: OsLogFile) -> None:
        content = file.read(0, file.size)
        if not self._may_end.is_set():
            self._waits.set()
            assert self._may_end.wait(SECONDS)
        self.durable[file.path] = content

    def hold(self) -> None:
        self._waits.clear()
        self._may_end.clear()

    def until_one_waits(self) -> None:
        assert self._waits.wait(SECONDS)

    def let_go(self) -> None:
        self._may_end.set()

    def cut_image(self, data_path: Path, image: Path) -> None:
        """Copy the data path, with only the part of its logs that survives a power cut."""
        shutil.copytree(data_path, image)
        for path in image.glob("topics/*/*.log"):
            path.write_bytes(self.durable.get(str(data_path / path.relative_to(image)), b""))


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    syncs = Syncs()
    sync = OsLogFile.sync

    def held(file: OsLogFile) -> None:
        if file.path.endswith(".log"):
            syncs.sync(file)
        sync(file)

    monkeypatch.setattr(OsLogFile, "sync", held)
    return syncs


@pytest.fixture
def both(tmp_path: Path, loop_thread: LoopThread, syncs: Syncs) -> Iterator[Both]:
    for node in running(tmp_path / "data", loop_thread):
        yield node
        syncs.let_go()


def running(path: Path, loop_thread: LoopThread) -> Iterator[Both]:
    path.mkdir(exist_ok=True)
    node = Both(path, loop_thread, durability=Durability.FSYNC)
    node.start()
    yield node
    node.stop()


def look(both: Both, client: RawClient, since_ns: int) -> dict[str, Any]:
    """Everything about the topic that is visible without consuming."""
    log = both.log()
    bounds = log.offsets("orders")
    fetched = log.fetch("orders", 0, max_bytes=1 << 20)
    pulled = [both.pull(client, "orders", queue) for queue in range(QUEUES)]
    ends = [
        client.ask(RequestCode.GET_MAX_OFFSET, topic="orders", queueId=queue).ext
        for queue in range(QUEUES)
    ]
    return {
        "offsets": [(queue.start, queue.end) for queue in bounds.queues],
        "fetched": [batch.first_offset for batch in fetched.batches()],
        "offset_at": log.offset_at("orders", since_ns),
        "peek": both.http("GET", "/topic/peek?topic=orders&limit=9"),
        "ends": ends,
        "pulled": [[each.body for each in decode_all(answer.body)] for answer in pulled],
        "told": [answer.ext for answer in pulled],
    }


def begin_send(client: RawClient, body: bytes, queue: int) -> Any:
    return client.begin(
        RequestCode.SEND_MESSAGE, body, producerGroup="PG", topic="orders", defaultTopic="TBW102",
        defaultTopicQueueNums=4, queueId=queue, sysFlag=0, bornTimestamp=1000, flag=0,
        properties="", reconsumeTimes=0, unitMode="false",
    )  # fmt: skip


def begin_pull(client: RawClient, queue: int, offset: int) -> Any:
    """A pull that waits for a message to come."""
    return client.begin(
        RequestCode.PULL_MESSAGE, consumerGroup="G", topic="orders", queueId=queue,
        queueOffset=offset, maxMsgNums=32, sysFlag=SUSPEND_AND_SUBSCRIPTION, commitOffset=0,
        suspendTimeoutMillis=int(SECONDS * 1000), subscription="*", subVersion=1,
        expressionType="TAG",
    )  # fmt: skip


def prepare(both: Both, client: RawClient) -> None:
    """Create the topic with a message in each queue."""
    both.make_topic(client, "orders", QUEUES)
    for queue, body in enumerate(OLD):
        both.send(client, "orders", body, queue)


def test_nobody_sees_a_message_before_its_sync_ends(both: Both, syncs: Syncs) -> None:
    client, waiting = both.client(), both.client()
    prepare(both, client)
    consumer = both.consumer("orders", max_in_flight=9)
    assert [each.body for each in received(consumer, 2)] == [*OLD]
    held = begin_pull(waiting, 1, 1)
    since_ns = time.time_ns()
    before = look(both, client, since_ns)
    syncs.hold()
    senders = [both.client(), both.client()]
    sent = [begin_send(senders[0], b"two", 1)]
    syncs.until_one_waits()
    sent.append(begin_send(senders[1], b"three", 1))
    assert look(both, client, since_ns) == before
    assert consumer.get(0.1) is None
    assert both.topic("orders").log.append_offset == 4  # they are written, though
    syncs.let_go()
    answers = [sender.answer_to(each) for sender, each in zip(senders, sent, strict=True)]
    assert [answer.ext["queueOffset"] for answer in answers if answer.ext] == ["1", "2"]
    woken = list(decode_all(waiting.answer_to(held).body))
    assert woken[0].body == b"two"
    assert [each.body for each in received(consumer, 2)] == [b"two", b"three"]
    after = look(both, client, since_ns)
    assert after["pulled"] == [[b"zero"], [b"one", b"two", b"three"]]
    assert after["ends"] == [{"offset": "1"}, {"offset": "3"}]
    assert (after["offset_at"], after["fetched"][-1]) == (2, 3)


def test_no_id_or_offset_that_was_seen_is_given_to_another_message(
    both: Both, syncs: Syncs, tmp_path: Path, loop_thread: LoopThread
) -> None:
    client = both.client()
    prepare(both, client)
    consumer = both.consumer("orders", max_in_flight=9)
    ids = {each.id for each in received(consumer, 2)}
    syncs.hold()
    begin_send(both.client(), b"lost", 1)
    syncs.until_one_waits()
    if (early := consumer.get(0.1)) is not None:
        ids.add(early.id)
    checkpoint = both.log().offsets("orders").queues[0].end
    pulled = {each.queue_offset: each.body for each in both.pulled(client, "orders", 1)}
    syncs.cut_image(tmp_path / "data", tmp_path / "image")
    syncs.let_go()
    for image in running(tmp_path / "image", loop_thread):
        client = image.client()
        consumer = image.consumer("orders", "late")
        told = image.send(client, "orders", b"new", 1)
        assert int(told["queueOffset"]) not in pulled
        assert [each.body for each in image.pulled(client, "orders", 1)] == [b"one", b"new"]
        (batch,) = image.log().fetch("orders", checkpoint, max_bytes=1 << 20).batches()
        assert bytes(batch.slice(checkpoint, checkpoint + 1)).endswith(b"new")
        (message,) = received(consumer, 1)
        assert message.body == b"new"
        assert message.id not in ids
