"""Figures of a query, from reports as Spark makes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.core.units import SECOND
from penstock.log_api.pipeline_status import PipelineStatus
from penstock.spark import figures
from penstock.spark.figures import QueryFacts, QueryFigures
from penstock.spark.offsets import Place, Position, to_checkpoint
from penstock.spark.read.progress import behind
from penstock.testing.clock import FakeClock


def stored(offsets: dict[str, int], topic: str = "t") -> str:
    places = {Place(topic, node, 0): offset for node, offset in offsets.items()}
    return json.dumps(to_checkpoint(Position(places, "g", {})))


def report(batch: int = 0, rows: int = 100, **more: Any) -> dict[str, Any]:
    source = {"endOffset": stored({"a:1": 100}), "latestOffset": stored({"a:1": 130})}
    return {"batchId": batch, "batchDuration": 500, "numInputRows": rows, "sources": [source],
            "sink": {"numOutputRows": -1}, **more}  # fmt: skip


def query(clock: FakeClock | None = None, name: str | None = "n", **about: Any) -> QueryFigures:
    return QueryFigures("4f1c", name, QueryFacts(**about), clock or FakeClock())


def test_what_it_tells_is_what_nsqd_takes() -> None:
    found = query(source="nsq t", sink="noop", sql="select 1")
    msgspec.convert(found.status(), PipelineStatus)
    found.take(report(rows=100, observedMetrics={"output": {"rows": 7}, "input": {"bad": 2}},
                      stateOperators=[{"numRowsTotal": 5, "memoryUsedBytes": 800}]))  # fmt: skip
    told = msgspec.convert(found.status(), PipelineStatus)
    assert (told.rows_read, told.rows_written, told.rows_bad, told.lag) == (100, 7, 2, 30)
    assert (told.batch, told.batches, told.batch_rows, told.batch_ms) == (0, 1, 100, 500)
    assert (told.state_rows, told.state_bytes) == (5, 800)
    assert (told.source, told.sink, told.sql) == ("nsq t", "noop", "select 1")
    assert (told.groups, found.read_nodes) == ([("t", "g")], {"a:1"})


def test_before_its_first_batch_it_tells_the_groups_that_it_will_have() -> None:
    found = query(groups=(("u", "h"),))
    assert (found.status()["batch"], found.status()["groups"]) == (-1, [("u", "h")])
    found.take(report())
    assert found.status()["groups"] == [("t", "g")]


def test_rates_are_of_about_a_minute_and_0_at_the_end() -> None:
    clock = FakeClock()
    found = query(clock)
    for batch in range(10):
        clock.advance(10 * SECOND)
        found.take(report(batch))
    assert found.status()["read_per_s"] == pytest.approx(10)
    clock.advance(120 * SECOND)
    assert found.status()["read_per_s"] == 0
    found.take(report(10))
    found.end()
    assert (found.status()["read_per_s"], found.status()["state"]) == (0, "stopped")


def test_a_batch_that_is_told_twice_is_one() -> None:
    found = query()
    for batch in (3, 3, 4):
        found.take(report(batch, rows=0))
    assert (found.status()["batches"], found.status()["batch"]) == (2, 4)
    found.take(report(5, sink={"numOutputRows": 40}))  # a sink that counts them
    found.take(report(6))
    assert found.status()["rows_written"] == 40
    assert found.status()["source"] == "nsq t"  # a query without a file


def test_an_error() -> None:
    found = query()
    assert found.runs
    found.end("x" * 5000)
    assert (found.runs, found.state, len(found.status()["error"])) == (False, "failed", 4096)


@pytest.mark.parametrize(
    ("name", "shown"), [(None, "4f1c"), ("", "4f1c"), ("a\nb", "a?b"), ("x" * 300, "x" * 256)]
)
def test_names_that_nsqd_takes(name: str | None, shown: str) -> None:
    assert query(name=name).status()["name"] == shown


@pytest.mark.parametrize("end", [None, "null", "7", "{}", '{"group": "g"}', '{"offsets": 3}', "["])
def test_other_sources_are_passed_over(end: str | None) -> None:
    found = query()
    found.take(report(sources=[{"endOffset": end, "latestOffset": None}]))
    assert (found.read_nodes, found.status()["groups"]) == (set(), [])


def test_nodes_are_bounded_and_brokers_of_name_servers_are_told_nothing() -> None:
    found = query()
    end = stored({"broker-a": 5, "b:1": 5})
    found.take(report(sources=[{"endOffset": end, "latestOffset": end}]))
    assert found.read_nodes == {"b:1"}
    end = stored({f"h{number}:1": 1 for number in range(500)})
    found.take(report(1, sources=[{"endOffset": end, "latestOffset": end}]))
    assert len(found.read_nodes) == figures.PLACES_MAX


def test_messages_behind_the_latest_offset_by_topic() -> None:
    def source(end: int, latest: int) -> dict[str, str]:
        places = [Place("t", "a:1", 0), Place("t", "b:1", 0), Place("u", "a:1", 0)]
        ends = dict.fromkeys(places, end)
        newest = {places[0]: latest, places[1]: latest + 1, places[2]: end - 5}
        return {
            name: json.dumps(to_checkpoint(Position(offsets, "g", {})))
            for name, offsets in (("endOffset", ends), ("latestOffset", newest))
        }

    assert behind({"sources": [source(10, 30)]}) == {"t": 41, "u": 0}
    assert behind({"sources": [source(10, 30), source(1, 1)]}) == {"t": 42, "u": 0}
    # A batch that Spark repeats has no latest offset.
    assert behind({"sources": [source(10, 30) | {"latestOffset": "null"}]}) == {"t": 0, "u": 0}
