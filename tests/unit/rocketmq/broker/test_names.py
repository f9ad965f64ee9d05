"""Names of topics and groups."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker import names


@pytest.mark.parametrize("topic", ["T", "a-b_C|9", "%RETRY%g", "t" * 127, "%DLQ%" + "g" * 250])
def test_legal_topics(topic: str) -> None:
    assert names.topic_problem(topic) is None


@pytest.mark.parametrize(
    ("topic", "says"),
    [("", "blank"), (" ", "blank"), ("a b", "illegal"), ("T\n", "illegal"), ("ä", "illegal"),
     ("t" * 128, "longer than topic max length 127"), ("%RETRY%" + "g" * 249, "255")],
)  # fmt: skip
def test_illegal_topics(topic: str, says: str) -> None:
    assert says in (names.topic_problem(topic) or "")


def test_groups() -> None:
    assert names.group_problem("CG-1") is None
    for group in ("", "a b", "g" * 256):
        assert names.group_problem(group) is not None


def test_inner_topics() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dead_letter_topic("g") == "%DLQ%g"
    assert names.is_inner("%DLQ%g")
    assert not names.is_inner("g")
