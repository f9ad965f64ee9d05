"""A copy as a node that is only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from penstock.core.errors import StorageError
from penstock.net.budget import Memory
from penstock.node.options import NodeOptions
from penstock.replication.copied_node import CopiedNode
from penstock.storage.batch import Batch
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.unit.replication.pieces import Primary, new_copy, until_whole


class Heard:
    """What an observer of a broker is told."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []

    def placed(self, records: object) -> None: ...

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.batches.append((topic, sum(each.count for each in batches)))


async def test_topics_are_shown_when_they_may_be_and_grow() -> None:
    primary, copy = Primary(), new_copy()
    options = NodeOptions()
    node = CopiedNode(copy, options, FakeClock(), Memory.of())
    heard = Heard()
    node.broker.observe(heard)  # type: ignore[arg-type]
    primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    assert list(node.copied.grow(lambda name: False)) == []
    assert not node.broker.topics
    [topic] = node.copied.grow(lambda name: True)
    assert (topic.name, topic.log.next_offset) == ("t", 2)
    primary.publish("t", b"3")
    until_whole(primary, copy)
    assert list(node.copied.grow(lambda name: True)) == []
    assert heard.batches == [("t", 1)]
    assert topic.queues.bounds(0) == (0, 3)
    node.broker.split(topic, 4, 4)
    assert topic.queues.firsts is None
    primary.publish("t", b"4")
    until_whole(primary, copy)
    copy.topics["t"].log._tail.clear()  # as those of a long answer are not kept in memory
    cast(FaultyDisk, copy.store.disk).fail("read", within=".log")
    with pytest.raises(StorageError):
        list(node.copied.grow(lambda name: True))
    assert list(node.copied.grow(lambda name: True)) == []
    assert heard.batches == [("t", 1), ("t", 1)], "heard of once it can be read"
    primary.broker.delete_topic("t")
    until_whole(primary, copy)
    assert "t" not in node.broker.topics
    with pytest.raises(StorageError, match="a copy takes no messages"):
        node.broker.topic("t")
    node.topic_list.changed()
    await node.topic_list.write()
    node.topic_list.tick(0)
