"""A node from its start to its end, without a port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.node import housekeeping
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.protocol.bodies import Bodies
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, faulty_disk


def options(path: Path | str, **changes: object) -> NsqdOptions:
    return NsqdOptions(data_path=str(path), node_id=7, **changes)


async def test_what_was_published_is_there_again(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path))
    node.start()
    told: list[StorageError | None] = []
    node.commits.publish(node.registry.topic("t"), Bodies.single(b"x"), 0, told.append)
    await node.close()  # which commits what is staged
    assert told == [None]
    again = await open_node(options(tmp_path))
    assert again.broker.topics["t"].log.next_offset == 1
    assert again.health == "OK"
    await again.close()


async def test_nothing_is_deleted_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons may keep messages that no channel or group holds, once they are open."""
    monkeypatch.setattr(housekeeping, "TICK_S", 0)
    node = await open_node(options(tmp_path, max_bytes_per_file=1, sync_timeout=MILLISECOND))
    topic = node.registry.topic("t")
    for _ in range(3):
        node.commits.publish(topic, Bodies.single(bytes(100)), 0, lambda error: None)
        await node.commits.settle()
    node.registry.channel(topic, "c").empty()
    for _ in range(100):
        await asyncio.sleep(0)
    assert topic.log.start_offset == 0
    node.start()
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if topic.log.start_offset:
                break
            await asyncio.sleep(0)
    await node.close()


async def test_publishes_that_wait_for_copies_are_given_up_in_time(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path, replicas_acked=1, replicas_timeout=MILLISECOND))
    node.start()
    assert node.replicas is not None
    topic = node.registry.topic("t")
    told = asyncio.get_running_loop().create_future()
    node.followers.heard("b", {})
    node.commits.publish(topic, Bodies.single(b"x"), 0, told.set_result)
    async with asyncio.timeout(TIMEOUT_S):
        assert str(await told) == "not copied within 0.001 s"
    await node.close()


async def test_a_disk_that_fails_shows_in_the_health(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = faulty_disk(monkeypatch)
    node = await open_node(options("/data"))
    topic = node.registry.topic("t")
    disk.fail("append", times=-1)
    node.commits.publish(topic, Bodies.single(b"x"), 0, lambda error: None)
    await node.commits.settle()
    assert node.health.startswith("NOK - ")
    node.start()
    assert node.vitals.missing() == [node.health]
    disk.heal()
    await node.close()


async def test_a_node_that_cannot_write_at_its_end_says_so_and_lets_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = faulty_disk(monkeypatch)
    node = await open_node(options("/data"))
    node.registry.topic("t")
    disk.fail("append", times=-1)
    disk.fail("replace", times=-1)
    disk.fail("sync", times=-1)
    await node.close()
    assert "failed to persist metadata - " in caplog.text
    assert "failed to save everything - " in caplog.text
    disk.heal()
    again = await open_node(options("/data"))
    assert list(again.broker.topics) == ["t"]
    await again.close()
