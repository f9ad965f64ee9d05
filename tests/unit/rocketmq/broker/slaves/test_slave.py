"""A slave's tables and topics, as they follow a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.core.errors import TooManyFilesError
from penstock.net.budget import Memory
from penstock.node.options import NodeOptions
from penstock.replication.copied_node import CopiedNode
from penstock.replication.copy import Copy, small_files
from penstock.replication.feed import Served, Source
from penstock.replication.messages import Batches, Hello
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, broker_settings
from tests.unit.rocketmq.broker.filling import store


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

    def _served(self) -> list[Served]:
        return [Served(each.name, each.log, each.journal.file, each.queues)
                for each in self.master.node.broker.topics.values()
                if isinstance(each.log, Log) and each.journal.file is not None]  # fmt: skip

    def step(self) -> None:
        """Exchange until the copy is whole, and show that."""
        self.copy.is_whole = False
        while not self.copy.is_whole:
            request = self.copy.request("history", 1, 1 << 20)
            hello = self.copy.take(b"".join(self._source.answer(request)))
            if hello is not None:
                self.copy.begin_run(hello)
            self.follower.update()

    def bodies(self, topic: str, queue: int) -> list[bytes]:
        store = self.slave.store
        return [bytes(each.frame) for each in store.read(topic, queue, 0, 100, 1 << 20)]


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
        expected = master.store.read("T", queue, 0, 100, 1 << 20)
        assert following.bodies("T", queue) == [bytes(each.frame) for each in expected]
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
    expected = master.store.read("T", 1, 3, 1, 1 << 20)
    assert [bytes(e.frame) for e in slave.store.read("T", 1, 3, 1, 1 << 20)] == [
        bytes(each.frame) for each in expected
    ]
