from __future__ import annotations

import json

import msgspec

from penstock.admin.history.sample import Look, Sample, TimedLook, look_of, sample_of
from tests.unit.admin.conftest import channel, topic


def sample(*topics: object) -> Sample:
    body = json.dumps({"topics": topics, "memory": {}}).encode()
    return sample_of(msgspec.json.decode(body, type=look_of(body)))


def test_columns() -> None:
    found = sample(
        topic("a", message_count=9, depth=1),
        topic("b", channel("c", depth=2, in_flight_count=3, deferred_count=4, message_count=10),
              channel("d", requeue_count=5, timeout_count=6)),
    )  # fmt: skip
    assert found.names == [("a", []), ("b", ["c", "d"])]
    assert found.depth.tolist() == [1, 0, 2, 0]
    assert found.held.tolist() == [1, 0, 9, 0]
    assert found.messages.tolist() == [9, 0, 10, 0]
    assert found.in_flight.tolist() == [0, 0, 3, 0]
    assert (found.requeues.tolist(), found.timeouts.tolist()) == ([0, 0, 0, 5], [0, 0, 0, 6])
    assert found.latencies == []


def test_latencies() -> None:
    latency = {"count": 1, "percentiles": [{"quantile": 0.99, "value": 7}]}
    found = sample(topic("a", channel("c", e2e_processing_latency=latency)), topic("b"))
    assert found.latencies == [(2, [(0.99, 7.0)])]


def test_what_an_answer_is_read_as() -> None:
    assert look_of(b'{"topics":[]}') is Look
    assert look_of(b'{"percentiles":[{"quantile":1}]}') is TimedLook


def test_nothing() -> None:
    for look in (Look(), Look([]), TimedLook([])):
        assert len(sample_of(look).depth) == 0
