"""The list of nodes beside a checkpoint: what may change, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.spark.errors import SinkError
from penstock.spark.pipelines import own, pinned

GIVEN = {"topic": "t", "exactlyOnce": "true"}
SPARK: Any = None


class Checkpoint:
    """A checkpoint that has a list of nodes, and perhaps an unfinished batch."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.unfinished = False


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    made = Checkpoint()

    def keep(_spark: Any, _checkpoint: str, nodes: list[str]) -> None:
        made.kept = nodes

    monkeypatch.setattr(own, "text", lambda *_: json.dumps(made.kept) if made.kept else None)
    monkeypatch.setattr(own, "has_unfinished_batch", lambda *_: made.unfinished)
    monkeypatch.setattr(pinned, "_keep", keep)
    return made


def fixed(nodes: str) -> str:
    options = GIVEN | {"nsqd_http_address": nodes}
    return pinned.fixed(SPARK, options, "run")["nsqd_http_address"]


def test_a_list_that_is_given_may_change_when_no_batch_is_unfinished(
    checkpoint: Checkpoint,
) -> None:
    checkpoint.unfinished = True
    assert fixed("a:1,b:1") == "a:1,b:1"  # of a query that has had no list
    assert fixed("b:1,a:1") == "b:1,a:1"
    assert checkpoint.kept == ["a:1", "b:1"]
    with pytest.raises(SinkError) as refused:
        fixed("c:1")
    assert str(refused.value) == (
        "checkpoint run has a batch that was not finished, for nodes a:1, b:1, and the sink names "
        "c:1: run it with the list of before, --available-now, and then with the new one"
    )
    checkpoint.unfinished = False
    assert fixed("c:1") == "c:1"
    assert checkpoint.kept == ["c:1"]


def test_at_least_once_nothing_is_kept(checkpoint: Checkpoint) -> None:
    options = {"topic": "t", "nsqd_http_address": "a:1"}
    assert pinned.fixed(SPARK, options, "run") == options
    assert checkpoint.kept == []
