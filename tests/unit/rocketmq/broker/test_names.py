"""Names of topics and groups."""

from __future__ import annotations

import os

import pytest

from penstock.rocketmq.broker import names
from penstock.storage.log import DOOMED
from penstock.storage.store import queue_directory


@pytest.mark.parametrize("topic", ["T", "a-b_C|9", "%RETRY%g", "t" * 127, "%DLQ%" + "g" * 240])
def test_legal_topics(topic: str) -> None:
    assert names.topic_problem(topic) is None


@pytest.mark.parametrize(
    ("topic", "says"),
    [("", "blank"), (" ", "blank"), ("a b", "illegal"), ("T\n", "illegal"), ("ä", "illegal"),
     ("t" * 128, "longer than topic max length 127"), ("%RETRY%" + "g" * 239, "245")],
)  # fmt: skip
def test_illegal_topics(topic: str, says: str) -> None:
    assert says in (names.topic_problem(topic) or "")


def test_groups() -> None:
    assert names.group_problem("CG-1") is None
    for group in ("", "a b", "g" * 239):
        assert names.group_problem(group) is not None


def test_the_longest_names_have_a_folder_until_they_are_deleted() -> None:
    group = "g" * 238
    assert names.group_problem(group) is None
    assert names.topic_problem(names.retry_topic(group)) is None
    folder = os.path.basename(queue_directory(names.retry_topic(group), 0)) + DOOMED
    assert len(folder) == 255


def test_inner_topics() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dead_letter_topic("g") == "%DLQ%g"
    assert names.is_inner("%DLQ%g")
    assert not names.is_inner("g")
