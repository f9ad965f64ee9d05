"""Fetches and the errors of each, over a log server in a thread."""

from __future__ import annotations

import pytest

from penstock.spark.errors import LostError, SourceError
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.read.fetch import fetch
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer


def split(server: FakeLogServer, start: int, log: str = "") -> Split:
    return Split(Place("t", "node:1", 0), server.address, start, 99, 10.0, log)


@pytest.mark.usefixtures("hasty")
def test_fetch_says_what_is_wrong(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 10)
    server.queue("t").start = 5
    given = Settings.parse({"topic": "t", "nsqd_http_address": server.address, "timeout": "60"})
    assert len(fetch(split(server, 5), 5, 1000, given)) > 0
    with pytest.raises(SourceError, match=r"offset 4 of topic t .*node:1 is gone: .* starts at 5"):
        fetch(split(server, 4), 4, 1000, given)
    with pytest.raises(SourceError, match=r"offset 11 of topic t .*node:1 is beyond its end 10"):
        fetch(split(server, 11), 11, 1000, given)
    server.fail_fetches = 100
    with pytest.raises(
        SourceError, match=r"topic t .* cannot be read from offset 5: .*TRY_LATER"
    ) as busy:
        fetch(split(server, 5), 5, 1000, given)
    assert "start it" not in str(busy.value)
    del server.topics["t"]
    with pytest.raises(SourceError, match="has vanished; offset 5 was to be read"):
        fetch(split(server, 5), 5, 1000, given)


def test_a_topic_that_was_made_again_since_it_was_planned(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 10)
    planned = split(server, 5, server.queue("t").log)
    given = Settings.parse({"topic": "t", "nsqd_http_address": server.address, "timeout": "60"})
    assert len(fetch(planned, 5, 1000, given)) > 0
    server.delete("t")
    server.queue("t").append([b"b"] * 20)
    said = f"offset 5 is of log {planned.log}, the node has log {server.queue('t').log} now"
    with pytest.raises(LostError, match=said):
        fetch(planned, 5, 1000, given)
    with pytest.raises(LostError, match="offset 30 is of log"):
        fetch(planned, 30, 1000, given)
