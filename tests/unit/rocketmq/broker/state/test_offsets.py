"""Committed offsets."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.state import offsets as offsets_module
from penstock.rocketmq.broker.state.offsets import FAR, ConsumerOffsets
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError


def filled() -> ConsumerOffsets:
    offsets = ConsumerOffsets()
    offsets.commit("T", "g", 0, 5)
    offsets.commit("T", "g", 1, 7)
    offsets.commit("T", "h", 0, 9)
    offsets.commit("U", "g", 0, -1)
    return offsets


def test_committing() -> None:
    offsets = filled()
    assert offsets.query("T", "g", 1) == 7
    assert offsets.query("T", "g", 2) is None
    assert offsets.of("T", "g") == {0: 5, 1: 7}
    assert offsets.topics_of("g") == ["T", "U"]
    assert offsets.groups_of("T") == ["g", "h"]


def test_round_trip_in_java_s_form() -> None:
    text = fastjson.dumps(filled().as_json())
    assert text == b'{"offsetTable":{"T@g":{0:5,1:7},"T@h":{0:9},"U@g":{0:-1}}}'
    read = ConsumerOffsets.from_json(fastjson.loads(text))
    assert read.as_json() == filled().as_json()


def test_cloning_and_forgetting() -> None:
    offsets = filled()
    offsets.clone("g", "new", None)
    assert offsets.of("T", "new") == {0: 5, 1: 7}
    offsets.clone("h", "new", "T")
    assert offsets.of("T", "new") == {0: 9}
    offsets.forget_group("g")
    assert offsets.groups_of("T") == ["h", "new"]
    offsets.forget_topic("T")
    assert offsets.as_json() == {"offsetTable": {"U@new": {0: -1}}}


def test_cloning_a_group_to_itself() -> None:
    offsets = filled()
    offsets.clone("g", "g", None)
    assert offsets.as_json() == filled().as_json()


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "OFFSETS_MAX", 4)
    offsets = filled()
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


def test_least_offsets() -> None:
    offsets = filled()
    assert offsets.least("T", "none", set()) == {0: 5, 1: 7}
    assert offsets.least("T", "g", {"g"}) == {0: FAR}
    assert offsets.least("T", "h", {"h"}) == {0: 5, 1: 7}


def test_what_is_no_table() -> None:
    bad: list[Any] = [
        None, {}, {"offsetTable": {"T": {}}}, {"offsetTable": {"T@g": 1}},
        {"offsetTable": {"T@g": {"x": 1}}}, {"offsetTable": {"T@g": {0: "1"}}},
    ]  # fmt: skip
    for value in bad:
        with pytest.raises(BodyError):
            ConsumerOffsets.from_json(value)


def test_what_was_kept_is_loaded() -> None:
    offsets = ConsumerOffsets()
    offsets.load(filled().as_json())
    assert offsets.as_json() == filled().as_json()


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
