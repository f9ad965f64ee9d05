"""Where pipelines begin, and the nodes that they tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.spark.offsets import Place, Position, to_checkpoint
from penstock.spark.pipelines import beginning, own
from penstock.spark.pipelines.reports import about
from penstock.spark.pipelines.spec import Source
from tests.unit.spark.pipelines.test_pipeline import spec
from tools.harness.fake_log_server import FakeLogServer


class Checkpoints:
    """Checkpoints of Spark: files by the name of their folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planned: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.logs: dict[str, str] = {}
        monkeypatch.setattr(own, "last_planned", lambda _, folder: self.planned.get(folder, -1))
        monkeypatch.setattr(own, "last_done", lambda _, folder: self.done.get(folder, -1))
        monkeypatch.setattr(own, "text", lambda _, folder, name: self.logs.get(f"{folder}/{name}"))

    def write(self, name: str, position: Position) -> None:
        lines = ("v1", json.dumps({"batchTimestampMs": 1}), json.dumps(to_checkpoint(position)))
        self.logs[f"c/offsets/{name}"] = "\n".join(lines)


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    return Checkpoints(monkeypatch)


def begin(server: FakeLogServer, **options: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    spark: Any = None
    given = {"topic": "t", "nsqd_http_address": server.address, **options}
    return beginning.fixed(spark, given, "c", "c/bad")


def offsets(server: FakeLogServer, options: Mapping[str, str]) -> dict[int, int]:
    """The offsets of the queues that options begin with."""
    queues = json.loads(options["startingOffsets"]).get("t", {}).get(server.node, {})
    return {int(queue): offset for queue, offset in queues.items()}


@pytest.mark.parametrize("given", [{}, {"startingTimestamp": "-1h"}, {"startingOffsets": "Latest"}])
def test_both_begin_at_one_place_that_moves(
    server: FakeLogServer, checkpoints: Checkpoints, given: dict[str, str]
) -> None:
    server.queue("t").append([b"old"])
    main, bad = begin(server, **given)
    assert main == bad
    assert "startingTimestamp" not in main
    assert offsets(server, main) == {0: 1}


def test_both_begin_where_the_group_of_the_main_query_stands(
    server: FakeLogServer, checkpoints: Checkpoints
) -> None:
    server.queue("t").append([b"x"] * 10)
    server.groups["t"] = {"g": {"0": 6}}
    main, bad = begin(server, startingOffsets="group", group="g")
    assert main == bad
    assert (main["group"], offsets(server, main)) == ("g", {0: 6})


def test_starts_that_do_not_move_stay(server: FakeLogServer, checkpoints: Checkpoints) -> None:
    for given in ({"startingOffsets": "earliest"}, {"startingTimestamp": "2026-01-01"}):
        main, bad = begin(server, **given)
        assert main == bad == {"topic": "t", "nsqd_http_address": server.address, **given}
    checkpoints.planned["c/bad"] = 0
    assert "startingOffsets" not in begin(server)[1]
    assert server.requests == []


def test_a_new_query_of_bad_rows_begins_where_the_main_one_stands(
    server: FakeLogServer, checkpoints: Checkpoints
) -> None:
    server.queue("t").append([b"x"] * 10)
    server.queue("t", 1).append([b"x"] * 10)
    server.queue("t", 2).append([b"x"] * 10)
    places = [Place("t", server.node, queue) for queue in (0, 1, 2)]
    position = Position(dict(zip(places, (7, 4, 11), strict=True)), "g", {places[1]: "another"})
    checkpoints.planned["c"], checkpoints.done["c"] = 6, 5
    assert begin(server)[1] == begin(server)[0]  # a log that says nothing
    checkpoints.write("5", position)
    main, bad = begin(server)
    assert "startingOffsets" not in main
    # What is of another log, or behind the end of this one, is read from its start.
    assert offsets(server, bad) == {0: 7}

    checkpoints.planned["c"], checkpoints.done["c"] = 0, -1
    checkpoints.write("0", position)
    assert "startingOffsets" not in begin(server)[1]  # an earlier version does not say
    checkpoints.write("0", position._replace(began={places[0]: 3}))
    assert offsets(server, begin(server)[1]) == {0: 3}


@pytest.mark.parametrize("topic", ["t", "*"])
def test_nodes_that_nsqlookupd_knows(server: FakeLogServer, topic: str) -> None:
    server.queue("t")
    server.producers = [server.address]
    options = {"topic": topic, "lookupd_http_address": server.address}
    assert list(about(spec(Source("nsq", options))).nodes()) == [server.address]
