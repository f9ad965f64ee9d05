"""Topics: the template, the system's own, versions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.state.topics import INHERIT, READ_WRITE, TopicTable
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig


def table(*, auto_create: bool = True) -> TopicTable:
    topics = TopicTable()
    topics.add_system_topics("C", "b", 1, auto_create=auto_create, trace=False)
    return topics


def test_a_topic_is_made_after_its_template() -> None:
    topics = table()
    before = topics.version.counter
    assert topics.make_for_send("T", "TBW102", 4, 2) == TopicConfig("T", 4, 4, READ_WRITE)
    assert (topics.version.counter, topics.version.timestamp_ms) == (before + 1, 2)
    again = topics.make_for_send("T", "TBW102", 9, 3)
    assert again is topics.get("T")
    assert topics.version.counter == before + 1
    many = topics.make_for_send("many", "TBW102", 99, 3)
    assert many is not None
    assert many.write_queues == 8
    none = topics.make_for_send("none", "TBW102", 0, 3)
    assert none is not None
    assert none.write_queues == 1


def test_without_a_template_there_is_no_topic() -> None:
    assert table(auto_create=False).make_for_send("T", "TBW102", 4, 2) is None
    assert table().make_for_send("T", "BenchmarkTest", 4, 2) is None  # is not to be inherited
    assert table().make_for_send("T", "nope", 4, 2) is None


def test_retry_topics_need_no_template() -> None:
    config = table(auto_create=False).make_for_send("%RETRY%g", "nope", 4, 2)
    assert config == TopicConfig("%RETRY%g", 1, 1, READ_WRITE)


def test_system_topics() -> None:
    topics = table()
    cluster = topics.get("C")
    assert cluster is not None
    assert cluster.perm == READ_WRITE | INHERIT
    cluster.read_queues = 3
    topics.add_system_topics("C", "b", 3, auto_create=True, trace=True)
    assert cluster.read_queues == 3
    assert topics.get("RMQ_SYS_TRACE_TOPIC") is not None


def test_deleting() -> None:
    topics = table()
    assert topics.delete("nope", 2) is None
    assert topics.version.timestamp_ms == 1
    assert topics.delete("TBW102", 2) is not None
    assert topics.as_json()["dataVersion"]["timestamp"] == 2
    assert "TBW102" not in topics.as_json()["topicConfigTable"]


def test_the_template_follows_the_settings() -> None:
    topics = table()
    topics.set_template(8, 2, inherited=True)
    assert topics.version.timestamp_ms == 1
    topics.set_template(3, 2, inherited=False)
    template = topics.configs["TBW102"]
    assert (template.write_queues, template.perm) == (3, READ_WRITE)
    topics.delete("TBW102", 3)
    topics.set_template(3, 4, inherited=False)
    assert topics.get("TBW102") is None
    topics.set_template(3, 4, inherited=True)
    assert topics.configs["TBW102"].perm == READ_WRITE | INHERIT


def test_ordered_topics() -> None:
    topics = table()
    topics.put(TopicConfig("T"), 2)
    assert topics.set_order({"T", "elsewhere"}, 3)
    assert topics.configs["T"].order
    assert not topics.set_order({"T"}, 4)
    assert topics.version.timestamp_ms == 3
    assert not topics.set_order(set(), 5), "one that a tool has made ordered stays so, as in 5.x"
    assert topics.configs["T"].order


def test_what_was_kept_is_loaded() -> None:
    topics, again = table(), TopicTable()
    topics.put(TopicConfig("T", 3, 4, 2, attributes={"a": "b"}), 9)
    again.load(topics.as_json())
    assert again == topics


def test_what_is_no_table() -> None:
    bad: list[Any] = [
        None, {}, {"topicConfigTable": []}, {"topicConfigTable": {"T": 1}},
        {"topicConfigTable": {}, "dataVersion": {"counter": "x"}},
    ]  # fmt: skip
    for value in bad:
        with pytest.raises(BodyError):
            TopicTable().load(value)
