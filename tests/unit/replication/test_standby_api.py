"""The logs of a copy as topics that can only be read."""

from __future__ import annotations

import gc
import weakref

from penstock.node.http.log_views import NSQ_VIEW
from penstock.replication.standby_api import CopiedTopics
from penstock.testing.clock import FakeClock
from tests.unit.replication.pieces import Primary, new_copy, stored, until_whole


def test_topics_come_and_go_with_the_copy() -> None:
    primary, copy = Primary(), new_copy()
    topics = CopiedTopics(copy, FakeClock())
    assert not list(topics)
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    assert list(topics) == ["t"]
    read = NSQ_VIEW.read(topics["t"], 0, 0, 1 << 20)
    assert b"".join(read) == stored(topic.log)
    assert topics["t"] is topics["t"]
    primary.broker.delete_topic("t")
    primary.publish("t", b"other")
    before = topics["t"]
    until_whole(primary, copy)
    assert topics["t"] is not before
    last = weakref.ref(topics["t"])
    primary.broker.delete_topic("t")
    until_whole(primary, copy)
    gc.collect()
    assert last() is None  # with the newest messages of its log
    assert "t" not in topics
    assert len(topics) == 0
