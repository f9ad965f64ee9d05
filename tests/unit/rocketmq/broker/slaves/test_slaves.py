"""Slaves: sends that wait for one, what a slave refuses, its tables as they follow a copy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.core.errors import TooManyFilesError
from penstock.net.budget import Memory
from penstock.node.followers import Followers
from penstock.node.node import Node
from penstock.node.node_options import NodeOptions
from penstock.nsq.protocol.bodies import Bodies
from penstock.replication.copied_node import CopiedNode
from penstock.replication.copy import Copy, small_files
from penstock.replication.feed import CopiedTopic, Feed, Source
from penstock.replication.messages import Batches, Hello
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.slaves import acks
from penstock.rocketmq.broker.slaves.acks import SlaveAcks
from penstock.rocketmq.broker.slaves.refusals import refusal
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, broker_settings, fake_node
from tests.unit.rocketmq.broker.filling import store

OK, NONE, LATE = (
    ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
)  # fmt: skip


class Scene:
    """A topic with messages, and what its senders are told."""

    def __init__(self, node: Node, clock: FakeClock) -> None:
        self.clock = clock
        self.topic = node.broker.topic("T")
        self.followers = Followers(clock)
        self.acks = SlaveAcks(self.followers, node.broker.topics, clock, 50, 1000)
        self.followers.changed.append(self.acks.look)
        self.told: list[tuple[int, ResponseCode]] = []
        self.asked = 0

        def ask() -> None:
            self.asked += 1

        self.followers.ask = ask

    def send(self, nbytes: int = 1) -> int:
        """Store a message and wait for slaves; the log's end."""
        self.topic.stage(Bodies.single(b"x" * nbytes), 0, lambda _: None)
        self.topic.commit()
        end = self.topic.log.next_offset
        self.acks.wait("T", end, lambda code: self.told.append((end, code)))
        return end

    def heard(self, end: int) -> None:
        self.followers.heard("slave", {("T", self.topic.log.id_base): end})


@pytest.fixture
def scene(tmp_path: Path, clock: FakeClock) -> Iterator[Scene]:
    node = fake_node(tmp_path, clock)
    yield Scene(node, clock)
    node.broker.close()


async def test_a_send_is_told_once_a_slave_has_it_and_one_question_serves_several(
    scene: Scene,
) -> None:
    scene.heard(0)
    ends = [scene.send(), scene.send(), scene.send()]
    assert scene.told == []
    await asyncio.sleep(0)
    assert scene.asked == 1
    scene.heard(2)
    assert scene.told == [(ends[0], OK), (ends[1], OK)]
    scene.heard(3)
    scene.heard(3)
    assert scene.told[2:] == [(ends[2], OK)]


async def test_without_a_slave_that_is_told_at_once(scene: Scene) -> None:
    end = scene.send()
    scene.acks.wait("gone", 1, lambda code: scene.told.append((0, code)))
    assert scene.told == [(end, NONE), (0, NONE)]


async def test_a_slave_that_is_far_behind_is_not_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acks, "NEAR", 1)
    scene.heard(0)
    scene.send()
    scene.send(2000)
    assert scene.told == [(2, NONE)]
    scene.heard(2)
    assert scene.told == [(2, NONE), (1, OK)]


async def test_a_slave_that_does_not_tell_in_time(scene: Scene) -> None:
    scene.heard(0)
    scene.send()
    scene.clock.advance(30_000_000)
    scene.send()
    scene.heard(1)
    scene.send()
    scene.clock.advance(20_000_001)
    async with asyncio.timeout(30):
        while len(scene.told) < 2:
            scene.clock.advance(10_000_000)
            await asyncio.sleep(0.005)
        scene.followers.gone("slave")
        while len(scene.told) < 3:
            scene.clock.advance(10_000_000)
            await asyncio.sleep(0.005)
    assert scene.told == [(1, OK), (2, LATE), (3, LATE)]
    scene.heard(3)
    assert len(scene.told) == 3


# --- what a slave refuses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "answered", "words"),
    [
        (RequestCode.SEND_MESSAGE_V2, ResponseCode.SERVICE_NOT_AVAILABLE, "put to the slave"),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SERVICE_NOT_AVAILABLE, "to the slave"),
        (RequestCode.DELETE_TOPIC_IN_BROKER, ResponseCode.SYSTEM_ERROR, "Can't modify topic"),
        (RequestCode.END_TRANSACTION, ResponseCode.SLAVE_NOT_AVAILABLE, ""),
        (RequestCode.CLEAN_UNUSED_TOPIC, ResponseCode.SUCCESS, ""),  # its master does
        *((code, None, "") for code in (
            RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.HEART_BEAT, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        )),
    ],
)  # fmt: skip
def test_what_changes_messages_or_tables_is_not_done_and_reads_are(
    code: RequestCode, answered: ResponseCode | None, words: str
) -> None:
    answer = refusal(Command(code, 7))
    if answered is None:
        assert answer is None
        return
    assert answer is not None
    assert (answer.code, answer.opaque, answer.ext) == (answered, 7, {})
    assert words in (answer.remark or "")


# --- tables and topics that follow a copy ---------------------------------------------------------


class Following:
    """A master's services, and a slave's over a copy of it."""

    def __init__(self, master: Services, path: Path, clock: FakeClock) -> None:
        self.master = master
        self.copy = Copy(Store(OsDisk(), str(path), LogOptions()))
        node = CopiedNode(self.copy, NodeOptions(), clock, Memory.of())
        settings: BrokerSettings = broker_settings(path)
        settings.broker_role, settings.broker_id = "SLAVE", 1
        state = StateFiles(OsDisk(), str(path / "config"), own=(files.OFFSETS,))
        self.slave = Services(settings, node, state, BROKER_ADDRESS)
        self.follower = self.slave.follow(node.copied)
        self._source = Source(self._served, lambda: small_files(master.node.broker.store),
                              Hello("run", "history", 1))  # fmt: skip

    def _served(self) -> list[CopiedTopic]:
        return [CopiedTopic(each.name, each.log, each.journal.file, each.queues)
                for each in self.master.node.broker.topics.values()
                if isinstance(each.log, Log) and each.journal.file is not None]  # fmt: skip

    def step(self) -> None:
        """Exchange until the copy is whole, and show that."""
        self.copy.is_whole = False
        while not self.copy.is_whole:
            request = self.copy.request("history", 1, 1 << 20)
            hello = self.copy.take(b"".join(Feed(self._source, request).answer()))
            if hello is not None:
                self.copy.begin_run(hello)
            self.follower.update()


@pytest.fixture
async def following(
    services: Services, tmp_path_factory: pytest.TempPathFactory, clock: FakeClock
) -> AsyncIterator[Following]:
    found = Following(services, tmp_path_factory.mktemp("slave"), clock)
    yield found
    found.copy.close()


def make(master: Services, topic: str, queues: int) -> None:
    master.topics.put(TopicConfig(topic, queues, queues), master.now_ms)
    master.store.topic(topic)
    master.files.save(files.TOPICS)


def frames(services: Services, topic: str, queue: int) -> list[bytes]:
    return [bytes(each.frame) for each in services.store.read(topic, queue, 0, 100, 1 << 20)]


async def test_messages_tables_and_offsets_follow(following: Following) -> None:
    master, slave = following.master, following.slave
    make(master, "T", 3)
    placed = [await store(master, "T", queue, b"%d" % queue) for queue in (2, 0, 2)]
    master.offsets.commit("T", "g", 2, 1)
    master.files.save(files.OFFSETS)
    heard: list[str] = []
    slave.store.on_append.append(lambda topic, batches: heard.append(topic))
    following.step()
    assert slave.topics.get("T") == master.topics.get("T")
    assert slave.offsets.query("T", "g", 2) == 1
    for queue in range(3):
        assert slave.store.bounds("T", queue) == master.store.bounds("T", queue)
        assert frames(slave, "T", queue) == frames(master, "T", queue)
    physical = placed[0][0].physical_offset
    assert slave.store.frame(physical) == master.store.frame(physical)
    assert heard == []  # it was there when the topic was shown
    await store(master, "T", 1, b"new")
    following.step()
    assert heard == ["T"]
    assert slave.store.bounds("T", 1) == (0, 1)


async def test_a_table_that_could_not_be_read_is_read_with_the_next_answer(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = following.master, following.slave
    following.step()
    make(master, "T", 3)
    read = OsDisk.read_file

    def full(disk: OsDisk, path: str) -> bytes | None:
        if path == following.copy.store.data_path + "/config/topics.json":
            raise TooManyFilesError(f"{path}: Too many open files")
        return read(disk, path)

    monkeypatch.setattr(OsDisk, "read_file", full)
    with pytest.raises(TooManyFilesError):
        following.step()
    monkeypatch.undo()
    assert slave.topics.get("T") is None
    following.step()
    assert slave.topics.get("T") == master.topics.get("T")


async def test_a_topic_that_is_deleted_and_made_again_is_another(following: Following) -> None:
    master, slave = following.master, following.slave
    make(master, "T", 2)
    await store(master, "T", 1, b"old")
    following.step()
    old = slave.store.base("T")
    gone: list[str] = []
    slave.store.deleted.append(gone.append)
    master.node.broker.delete_topic("T")
    master.store.forget("T")
    following.step()
    assert gone == ["T"]
    assert "T" not in slave.node.broker.topics
    cast(FakeClock, master.clock).advance(1_000_000_000)
    make(master, "T", 2)
    await store(master, "T", 1, b"new")
    following.step()
    assert slave.store.base("T") == master.store.base("T") != old
    assert slave.store.bounds("T", 1) == (0, 1)


async def test_offsets_that_clients_commit_here_are_kept_until_the_master_s_come(
    following: Following,
) -> None:
    master, slave = following.master, following.slave
    make(master, "T", 1)
    following.step()
    slave.offsets.commit("T", "g", 0, 5)
    slave.topics.put(TopicConfig("mine", 1, 1), 1)
    slave.files.save(files.OFFSETS)
    slave.files.save(files.TOPICS)
    store_ = following.copy.store
    assert b'"T@g":{0:5}' in (store_.read_file("config/consumerOffset.json") or b"")
    assert b"mine" not in (store_.read_file("config/topics.json") or b"")
    master.offsets.commit("T", "g", 0, 7)
    master.files.save(files.OFFSETS)
    following.step()
    assert slave.offsets.query("T", "g", 0) == 7


async def test_a_queue_goes_on_where_its_messages_say_behind_those_that_the_master_has_lost(
    following: Following,
) -> None:
    register_dialects()  # whose messages state their queue offsets
    master, slave = following.master, following.slave
    make(master, "T", 2)
    await store(master, "T", 1, b"0")
    following.step()
    log = master.node.broker.topics["T"].log
    assert isinstance(log, Log)
    for number in (1, 2, 3):
        await store(master, "T", 1, b"%d" % number)
    raw = b"".join(log.read_raw(3, 1 << 20))
    following.copy.topics["T"].append(Batches("T", log.id_base, 0, 4, 0), raw)
    following.copy.settle()
    following.follower.update()
    assert slave.store.bounds("T", 1) == (0, 4)
    assert frames(slave, "T", 1)[-1] == frames(master, "T", 1)[-1]
