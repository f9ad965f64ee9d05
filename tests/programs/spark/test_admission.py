"""Streams that wait for more messages before they take any, over a log server in a thread."""

from __future__ import annotations

import pytest

from penstock.spark.read import admission
from penstock.testing.clock import FakeClock
from tests.programs.spark.test_stream import reader, rows
from tools.harness.fake_log_server import FakeLogServer

HOUR_NS = 3_600_000_000_000


def test_few_messages_wait_for_others_and_are_held(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 3)
    stream = reader(server, minRecordsPerTrigger="4", maxTriggerDelay="1h")
    start = stream.initialOffset()
    limit = stream.getDefaultReadLimit()
    assert stream.latestOffset(start, limit) == start
    # Spark asks again at once, which is answered a moment later.
    server.queue("t", 1)
    assert stream.latestOffset(start, limit) == start
    assert server.groups["t"]["g"] == {"0": 0, "1": 0}
    server.queue("t", 1).append([b"y"])
    end = stream.latestOffset(start, limit)
    assert len(rows(stream, start, end)) == 4
    assert stream.latestOffset(end, limit) == end


def test_a_query_that_rests_takes_what_waited_for_as_long_as_it_may(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(admission, "SYSTEM_CLOCK", clock)
    server.queue("t").append([b"x"] * 4)
    stream = reader(server, minRecordsPerTrigger="4", maxTriggerDelay="1h")
    limit = stream.getDefaultReadLimit()
    end = stream.latestOffset(stream.initialOffset(), limit)
    # Nothing has come twice in a row: from now on it asks for news alone.
    assert [stream.latestOffset(end, limit) for _ in range(2)] == [end, end]
    server.queue("t").append([b"y"])
    assert stream.latestOffset(end, limit) == end
    clock.advance(HOUR_NS)
    assert rows(stream, end, stream.latestOffset(end, limit)) == [4]
