"""Splits read piece by piece."""

from __future__ import annotations

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.offsets import Place
from penstock.spark.once import Once
from penstock.spark.planning import Split
from penstock.spark.read import reader
from penstock.spark.read.reader import read_split
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer

COLUMNS = ("offset", "body")


def settings(server: FakeLogServer, **options: str) -> Settings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60", **options}
    return Settings.parse(given)


def offsets(server: FakeLogServer, start: int, end: int, given: Settings) -> list[int]:
    split = Split(Place("t", server.node, 0), server.address, start, end, 50.0)
    batches = read_split(split, COLUMNS, given)
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def test_many_fetches_make_one_split(server: FakeLogServer) -> None:
    queue = server.queue("t")
    for _ in range(30):
        queue.append([b"x" * 900] * 10)
    given = settings(server, fetchBytes="1000")
    assert offsets(server, 7, 293, given) == list(range(7, 293))
    assert server.fetches > 3


def test_a_gap_is_an_error_or_is_skipped_with_a_warning(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_once", Once())
    queue = server.queue("t")
    for _ in range(3):
        queue.append([b"x"] * 10)
    queue.drop(1)
    with pytest.raises(SourceError, match=r"offset 10 of topic t .* is missing .* goes on at 20"):
        offsets(server, 0, 30, settings(server, fetchBytes="1"))
    found = offsets(server, 0, 30, settings(server, failOnDataLoss="false"))
    assert found == [*range(10), *range(20, 30)]
    where = f"of topic t (queue 0) on node {server.node} is missing (damaged and set aside)"
    assert caplog.messages == [
        f"offset 10 {where}; the log goes on at 20. Skipped, as failOnDataLoss=false"
    ]
    assert offsets(server, 5, 15, settings(server, failOnDataLoss="false")) == [*range(5, 10)]
    assert caplog.messages[1:] == [
        f"offset 10 {where}; the log goes on beyond what was planned. Skipped, as "
        "failOnDataLoss=false"
    ]


def test_a_gap_within_one_fetch_is_noticed_too(server: FakeLogServer) -> None:
    queue = server.queue("t")
    for _ in range(3):
        queue.append([b"x"] * 10)
    queue.drop(1)
    with pytest.raises(SourceError, match="offset 10 of topic t"):
        offsets(server, 0, 30, settings(server))
