from __future__ import annotations

import json
import struct

import msgspec
import pytest

from penstock.admin.history.sample import (
    FIGURES,
    Look,
    PackedLook,
    Sample,
    look_of,
    sample_of,
)
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
    assert found.done.tolist() == [8, 0, 1, 0]
    assert found.messages.tolist() == [9, 0, 10, 0]
    assert found.in_flight.tolist() == [0, 0, 3, 0]
    assert (found.requeues.tolist(), found.timeouts.tolist()) == ([0, 0, 0, 5], [0, 0, 0, 6])
    assert found.latencies == []


def test_numbers_that_no_daemon_should_tell() -> None:
    found = sample(topic("a", channel("c", message_count=1 << 64), message_count=-1))
    assert found.messages.tolist() == [-1, 2.0**64]


def test_latencies() -> None:
    latency = {"count": 1, "percentiles": [{"quantile": 0.99, "value": 7}]}
    found = sample(topic("a", channel("c", e2e_processing_latency=latency)), topic("b"))
    assert found.latencies == [(2, [(0.99, 7.0)])]


def packed(**changes: object) -> bytes:
    """What an nsqd of ours answers: topic a without, b with channel c."""
    rows = {"a": dict.fromkeys(FIGURES, 1), "b": {"depth": 2, "message_count": 9},
            "c": {"depth": 3, "in_flight_count": 4, "deferred_count": 5, "client_count": 6,
                  "paused": 1}}  # fmt: skip
    names = [*reversed(FIGURES), "of_another_version"]
    flat = [row.get(name, 0) for row in rows.values() for name in names]
    answer = {"packed": struct.pack(f"<{len(flat)}q", *flat), "figures": names,
              "topics": ["a", "b"], "channels": [[], ["c"]], "latencies": [[2, [[0.99, 7]]]],
              "groups": [{"topic_name": "b", "consumer_groups": [], "log_groups": [
                  {"group_name": "g", "lag": 5, "rate": 0.5, "committed": {"0": 1}}]}],
              "version": "1.3.0"}  # fmt: skip
    return msgspec.json.encode({**answer, **changes})


def test_packed() -> None:
    body = packed()
    assert look_of(body) is PackedLook
    found = sample_of(msgspec.json.decode(body, type=PackedLook))
    assert found.names == [("a", []), ("b", ["c"])]
    assert (found.depth.tolist(), found.messages.tolist()) == ([1, 2, 3], [1, 9, 0])
    assert (found.done.tolist(), found.clients.tolist()) == ([-2, 7, -12], [1, 0, 6])
    assert (found.paused.tolist(), found.backend_depth.tolist()) == ([1, 0, 1], [1, 0, 0])
    assert found.latencies == [(2, [(0.99, 7.0)])]
    assert (found.groups.names, found.groups.lags.tolist()) == ([("b", "@g")], [5])
    nothing = packed(packed=b"", topics=[], channels=[], latencies=[], groups=[])
    assert len(sample_of(msgspec.json.decode(nothing, type=PackedLook)).depth) == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"packed": b"1234"}, "not of the same number"),
        ({"topics": ["a"]}, "not of the same number"),
        ({"channels": [["x"], ["c"]]}, "not of the same number"),
        ({"figures": ["depth"]}, "without backend_depth, client_count"),
        ({"figures": []}, "without backend_depth"),
        ({"latencies": [[3, []]]}, "a latency of no row"),
        ({"latencies": [[-1, []]]}, "a latency of no row"),
        ({"packed": 1}, "Expected `bytes`"),
    ],
)
def test_packed_as_nobody_should(changes: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(packed(**changes), type=PackedLook)


def test_nothing() -> None:
    for look in (Look(), Look([])):
        assert len(sample_of(look).depth) == 0


def test_groups_are_beside_the_rest() -> None:
    found = sample(
        topic("a", channel("c", depth=2), log_groups=[{"group_name": "g", "lag": 5, "rate": 0.5}]),
        topic("b", consumer_groups=[{"group_name": "g", "lag": 1, "rate": 2.0, "clients": None}],
              log_groups=[{"group_name": "g", "lag": 2, "rate": 1.0}]),
    )  # fmt: skip
    assert found.names == [("a", ["c"]), ("b", [])]
    assert found.depth.tolist() == [0, 0, 2]
    assert found.groups.names == [("a", "@g"), ("b", "@g")]
    assert found.groups.lags.tolist() == [5, 3]
    assert found.groups.dialects == ["log", "rocketmq"]
    assert found.groups.rates.tolist() == [0.5, 3]
    assert sample(topic("a")).groups.names == []
