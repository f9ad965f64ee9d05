"""The broker's tables: topics, groups with their retries and delay levels, committed offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.core.units import HOUR, SECOND
from penstock.rocketmq.broker.state import consumer_offsets as offsets_module
from penstock.rocketmq.broker.state import group_table as groups_module
from penstock.rocketmq.broker.state.consumer_offsets import FAR, ConsumerOffsets
from penstock.rocketmq.broker.state.group_table import GroupConfig, GroupTable
from penstock.rocketmq.broker.state.levels import DelayLevels
from penstock.rocketmq.broker.state.retry_policy import RetryPolicy
from penstock.rocketmq.broker.state.topic_table import INHERIT, READ_WRITE, TopicTable
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig

# --- topics ---------------------------------------------------------------------------------------


@pytest.fixture
def topics() -> TopicTable:
    topics = TopicTable()
    topics.add_system_topics("C", "b", 1, auto_create=True, trace=False)
    return topics


def test_a_topic_is_made_after_its_template(topics: TopicTable) -> None:
    before = topics.version.counter
    made = topics.make_for_send("T", "TBW102", 4, 2)
    assert made == TopicConfig("T", 4, 4, READ_WRITE)
    assert (topics.version.counter, topics.version.timestamp_ms) == (before + 1, 2)
    assert topics.make_for_send("T", "TBW102", 9, 3) is topics.get("T") is made
    assert topics.version.counter == before + 1
    for wanted, queues in ((99, 8), (0, 1)):
        config = topics.make_for_send(f"of{wanted}", "TBW102", wanted, 3)
        assert config is not None
        assert config.write_queues == queues


def test_without_a_template_there_is_no_topic_but_those_of_retries(topics: TopicTable) -> None:
    bare = TopicTable()
    bare.add_system_topics("C", "b", 1, auto_create=False, trace=False)
    assert bare.make_for_send("T", "TBW102", 4, 2) is None
    for template in ("BenchmarkTest", "nope"):  # the first is not to be inherited
        assert topics.make_for_send("T", template, 4, 2) is None
    retries = TopicConfig("%RETRY%g", 1, 1, READ_WRITE)
    assert bare.make_for_send("%RETRY%g", "nope", 4, 2) == retries


def test_system_topics(topics: TopicTable) -> None:
    cluster = topics.get("C")
    assert cluster is not None
    assert cluster.perm == READ_WRITE | INHERIT
    cluster.read_queues = 3
    topics.add_system_topics("C", "b", 3, auto_create=True, trace=True)
    assert cluster.read_queues == 3
    assert topics.get("RMQ_SYS_TRACE_TOPIC") is not None


def test_deleting_a_topic(topics: TopicTable) -> None:
    assert topics.delete("nope", 2) is None
    assert topics.version.timestamp_ms == 1
    assert topics.delete("TBW102", 2) is not None
    assert topics.as_json()["dataVersion"]["timestamp"] == 2
    assert "TBW102" not in topics.as_json()["topicConfigTable"]


def test_the_template_follows_the_settings(topics: TopicTable) -> None:
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


def test_ordered_topics(topics: TopicTable) -> None:
    topics.put(TopicConfig("T"), 2)
    assert topics.set_order({"T", "elsewhere"}, 3)
    assert topics.configs["T"].order
    assert not topics.set_order({"T"}, 4)
    assert topics.version.timestamp_ms == 3
    assert not topics.set_order(set(), 5), "one that a tool has made ordered stays so, as in 5.x"
    assert topics.configs["T"].order


# --- groups ---------------------------------------------------------------------------------------


FIXTURES = Path(__file__).parents[4] / "fixtures" / "rocketmq"


def test_a_group_as_java_prints_it() -> None:
    """5.x's classes; the sample is theirs."""
    lines = (FIXTURES / "java_bodies.txt").read_text().splitlines()
    bodies = dict(line.partition(" ")[::2] for line in lines)
    made = fastjson.dumps(GroupConfig("CG").as_json()).decode()
    assert made == bodies["SubscriptionGroupConfig"]


def test_all_that_5_x_knows_of_a_group_is_kept() -> None:
    value = {
        **GroupConfig("CG").as_json(), "consumeMessageOrderly": True, "consumeTimeoutMinute": 3,
        "groupSysFlag": 5, "attributes": {"a": "b"},
        "groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {
            "initial": 1, "max": 9, "multiplier": 2}},
        "subscriptionDataSet": [{"topic": "T", "expression": "*", "expressionType": "TAG"}],
    }  # fmt: skip
    assert GroupConfig.from_json(value).as_json() == value


@pytest.mark.parametrize(
    "value",
    [None, {}, {"groupName": 1}, {"retryMaxTimes": True}, {"consumeEnable": 1},
     {"retryQueueNums": 10_001}, {"attributes": []}, {"groupRetryPolicy": 1},
     {"subscriptionDataSet": {}}, {"groupSysFlag": "1"}],
)  # fmt: skip
def test_what_is_no_group(value: Any) -> None:
    with pytest.raises(BodyError):
        GroupConfig.from_json(value and {"groupName": "g", **value})


def test_groups_are_made_and_deleted() -> None:
    groups = GroupTable()
    assert groups.find("g", 5, auto_create=False) is None
    made = groups.find("g", 5, auto_create=True)
    assert groups.find("g", 6, auto_create=False) is made
    assert groups.as_json()["dataVersion"] == {"counter": 1, "timestamp": 5}
    assert groups.delete("g", 7) is made
    assert groups.delete("g", 8) is None
    assert groups.as_json()["subscriptionGroupTable"] == {}


def test_the_number_of_groups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "GROUPS_MAX", 2)
    groups = GroupTable()
    groups.put(GroupConfig("a"), 1)
    with pytest.raises(BodyError, match="more than 2 consumer groups"):
        groups.put_all([GroupConfig("b"), GroupConfig("c")], 2)
    assert list(groups.configs) == ["a"]
    groups.put_all([GroupConfig("b"), GroupConfig("a", retry_max_times=3)], 3)
    assert groups.find("c", 4, auto_create=False) is None
    with pytest.raises(BodyError):
        groups.find("c", 4, auto_create=True)
    assert groups.configs["a"].retry_max_times == 3


GROWING = {"initial": 1000, "max": 20_000, "multiplier": 3}


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": GROWING},
         {-1: 1000, 0: 1000, 1: 3000, 2: 9000, 3: 20_000, 99: 20_000}),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {}},
         {0: 5000, 1: 10_000, 40: 7_200_000}),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}},
         {0: 3, 1: 4, 2: 4, 9: 4}),  # they begin with the third, as in Java
        ({"customizedRetryPolicy": {"next": [7]}}, {0: 7}),
        ({}, {3: None}),
        ({"type": "CUSTOMIZED"}, {3: None}),
        ({"type": "EXPONENTIAL"}, {3: None}),
        ({"type": "CUSTOMIZED", "exponentialRetryPolicy": GROWING}, {3: None}),
    ],
)  # fmt: skip
def test_delays_of_retries(policy: dict[str, Any], delays: dict[int, int | None]) -> None:
    """None leaves the delay to the broker."""
    read = RetryPolicy.from_json(policy)
    assert {times: read.delay_ms(times) for times in delays} == delays


def test_policies_are_written_as_they_were_read() -> None:
    policies: list[dict[str, Any]] = [
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": GROWING}, {"type": "CUSTOMIZED"},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}},
    ]  # fmt: skip
    assert [RetryPolicy.from_json(policy).as_json() for policy in policies] == policies


@pytest.mark.parametrize(
    "value",
    [None, [], {"type": "ODD"}, {"type": 1},
     {"exponentialRetryPolicy": {"initial": -1}}, {"exponentialRetryPolicy": {"max": True}},
     {"exponentialRetryPolicy": {"multiplier": 1 << 63}}, {"customizedRetryPolicy": {}},
     {"customizedRetryPolicy": {"next": []}}, {"customizedRetryPolicy": {"next": [1, "2"]}},
     {"customizedRetryPolicy": {"next": [1] * 1001}}],
)  # fmt: skip
def test_what_is_no_policy(value: Any) -> None:
    with pytest.raises(BodyError):
        RetryPolicy.from_json(value)


def test_delay_levels() -> None:
    levels = DelayLevels()
    assert levels.highest == 18
    assert [levels.delay_ns(n) for n in (0, 1, 3, 18, 99, -1)] == [
        0, SECOND, 10 * SECOND, 2 * HOUR, 2 * HOUR, 0,
    ]  # fmt: skip
    assert levels.clip(99) == 18


def test_own_levels() -> None:
    assert DelayLevels("2s 1d").delay_ns(2) == 24 * HOUR
    for text, words in (("1s 5x", "'5x'"), ("", "holds no level"), (" ", "holds no level")):
        with pytest.raises(ConfigError, match=words):
            DelayLevels(text)


# --- offsets --------------------------------------------------------------------------------------


names = st.sampled_from("ab")
changes = st.one_of(
    st.tuples(st.just("commit"), names, names, st.integers(0, 1), st.integers(-1, 9)),
    st.tuples(st.just("clone"), names, names, st.none() | names, st.none()),
    st.tuples(st.sampled_from(["forget", "forget_topic", "forget_group"]), names, names,
              st.none(), st.none()),
)  # fmt: skip


@given(st.lists(changes, max_size=30))
def test_offsets_are_a_dictionary(history: list[tuple[str, str, str, Any, Any]]) -> None:
    offsets, model = ConsumerOffsets(), dict[tuple[str, str, int], int]()
    for kind, first, second, place, offset in history:
        if kind == "commit":
            offsets.commit(first, second, place, offset)
            model[first, second, place] = offset
        elif kind == "clone":
            offsets.clone(first, second, place)
            copied = {key: each for key, each in model.items()
                      if key[1] == first != second and place in (None, key[0])}  # fmt: skip
            replaced = {(key[0], second) for key in copied}
            model = {key: each for key, each in model.items() if key[:2] not in replaced}
            model |= {(key[0], second, key[2]): each for key, each in copied.items()}
        else:
            named = (first, second)[: 2 if kind == "forget" else 1]
            at = 1 if kind == "forget_group" else 0
            getattr(offsets, kind)(*named)
            model = {key: each for key, each in model.items()
                     if key[at : at + len(named)] != named}  # fmt: skip
        again = ConsumerOffsets()
        again.load(fastjson.loads(fastjson.dumps(offsets.as_json())))
        for each in (offsets, again):
            assert {(topic, group, queue): found for topic in "ab" for group in "ab"
                    for queue, found in each.of(topic, group).items()} == model  # fmt: skip
            for name in "ab":
                assert set(each.topics_of(name)) == {key[0] for key in model if key[1] == name}
                assert set(each.groups_of(name)) == {key[1] for key in model if key[0] == name}
        assert offsets.query("a", "b", 1) == model.get(("a", "b", 1))


@pytest.fixture
def filled() -> ConsumerOffsets:
    offsets = ConsumerOffsets()
    for topic, group, queue, offset in (
        ("T", "g", 0, 5), ("T", "g", 1, 7), ("T", "h", 0, 9), ("U", "g", 0, -1),
    ):  # fmt: skip
        offsets.commit(topic, group, queue, offset)
    return offsets


def test_offsets_in_javas_form(filled: ConsumerOffsets) -> None:
    text = b'{"offsetTable":{"T@g":{0:5,1:7},"T@h":{0:9},"U@g":{0:-1}}}'
    assert fastjson.dumps(filled.as_json()) == text


def test_the_number_of_offsets_is_bounded(
    filled: ConsumerOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets_module, "OFFSETS_MAX", 4)
    offsets = filled
    offsets.commit("T", "g", 0, 6)
    with pytest.raises(BodyError, match="more than 4 offsets"):
        offsets.commit("T", "new", 0, 1)
    assert offsets.groups_of("T") == ["g", "h"]
    offsets.forget_topic("U")
    offsets.commit("T", "new", 0, 1)
    loaded = ConsumerOffsets()
    loaded.load(offsets.as_json())
    with pytest.raises(BodyError, match="more than 4 offsets"):
        loaded.commit("T", "new", 1, 1)


def test_least_offsets(filled: ConsumerOffsets) -> None:
    offsets = filled
    assert offsets.least("T", "none", set()) == {0: 5, 1: 7}
    assert offsets.least("T", "g", {"g"}) == {0: FAR}
    assert offsets.least("T", "h", {"h"}) == {0: 5, 1: 7}


def test_names_that_nothing_can_have() -> None:
    offsets = ConsumerOffsets()
    for topic, group in (("T" * 256, "g"), ("T", "g" * 256)):
        with pytest.raises(BodyError, match="is too long"):
            offsets.commit(topic, group, 0, 1)
    assert offsets.as_json() == {"offsetTable": {}}


def test_every_name_that_is_taken_can_be_read_again() -> None:
    offsets = ConsumerOffsets()
    with pytest.raises(BodyError, match="holds no @"):
        offsets.commit("a@" + "b" * 200, "g" * 200, 0, 1)
    offsets.commit("T", "g@h", 0, 1)
    loaded = ConsumerOffsets.from_json(offsets.as_json())
    assert loaded.of("T", "g@h") == {0: 1}


def test_what_earlier_versions_have_taken_does_not_hinder_a_start() -> None:
    kept = {"a@" + "b" * 200 + "@" + "g" * 200: {0: 1}, "T@g": {0: 2}}
    assert ConsumerOffsets.from_json({"offsetTable": kept}).as_json() == {
        "offsetTable": {"T@g": {0: 2}}
    }


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (TopicTable(), [{}, {"topicConfigTable": []}, {"topicConfigTable": {"T": 1}},
                        {"topicConfigTable": {}, "dataVersion": {"counter": "x"}}]),
        (GroupTable(), [{}, {"subscriptionGroupTable": []}, {"subscriptionGroupTable": {"g": 1}}]),
        (ConsumerOffsets(), [
            {}, {"offsetTable": {"T": {}}}, {"offsetTable": {"T@g": 1}},
            {"offsetTable": {"T@g": {"x": 1}}}, {"offsetTable": {"T@g": {0: "1"}}},
        ]),
    ],
    ids=["topics", "groups", "offsets"],
)  # fmt: skip
def test_what_is_no_table(
    table: TopicTable | GroupTable | ConsumerOffsets, values: list[Any]
) -> None:
    for value in (None, *values):
        with pytest.raises(BodyError):
            table.load(value)


def test_what_was_kept_is_loaded(topics: TopicTable) -> None:
    topics.put(TopicConfig("T", 3, 4, 2, attributes={"a": "b"}), 9)
    groups = GroupTable()
    groups.put(GroupConfig("g", retry_max_times=3), 5)
    kept: Any
    again: Any
    for kept, again in ((topics, TopicTable()), (groups, GroupTable())):
        again.load(kept.as_json())
        assert again == kept
