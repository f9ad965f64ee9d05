from __future__ import annotations

from typing import Any

import pytest

from penstock.nsq.nsqd.stats.statsd import StatsdLines, packets, resolved_prefix


def stats(*topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"topics": list(topics), **more}


def latency(*pairs: tuple[float, float]) -> dict[str, Any]:
    return {"count": 1, "percentiles": [{"quantile": q, "value": v} for q, v in pairs] or None}


def topic(
    name: str, messages: int, *channels: dict[str, Any], e2e: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "topic_name": name,
        "channels": list(channels),
        "depth": 3,
        "backend_depth": 1,
        "message_count": messages,
        "message_bytes": messages * 10,
        "e2e_processing_latency": e2e or latency(),
    }


def channel(name: str, messages: int, e2e: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "channel_name": name,
        "depth": 4,
        "backend_depth": 2,
        "in_flight_count": 5,
        "deferred_count": 6,
        "message_count": messages,
        "requeue_count": 7,
        "timeout_count": 8,
        "client_count": 9,
        "e2e_processing_latency": e2e or latency(),
    }


def test_every_key_of_a_topic_in_nsqs_order() -> None:
    e2e = latency((0.999, 1234.9), (0.5, 7.0))
    found = StatsdLines("nsq.h.").of(stats(topic("t", 2, channel("c", 1, e2e), e2e=e2e)))
    assert "".join(found) == (
        "nsq.h.topic.t.message_count:2|c\n"
        "nsq.h.topic.t.message_bytes:20|c\n"
        "nsq.h.topic.t.depth:3|g\n"
        "nsq.h.topic.t.backend_depth:1|g\n"
        "nsq.h.topic.t.e2e_processing_latency_100:1234|g\n"
        "nsq.h.topic.t.e2e_processing_latency_50:7|g\n"
        "nsq.h.topic.t.channel.c.message_count:1|c\n"
        "nsq.h.topic.t.channel.c.depth:4|g\n"
        "nsq.h.topic.t.channel.c.backend_depth:2|g\n"
        "nsq.h.topic.t.channel.c.in_flight_count:5|g\n"
        "nsq.h.topic.t.channel.c.deferred_count:6|g\n"
        "nsq.h.topic.t.channel.c.requeue_count:7|c\n"
        "nsq.h.topic.t.channel.c.timeout_count:8|c\n"
        "nsq.h.topic.t.channel.c.clients:9|g\n"
        "nsq.h.topic.t.channel.c.e2e_processing_latency_100:1234|g\n"
        "nsq.h.topic.t.channel.c.e2e_processing_latency_50:7|g\n"
    )


def test_memory() -> None:
    names = ("heap_objects", "heap_idle_bytes", "heap_in_use_bytes", "heap_released_bytes",
             "gc_pause_usec_100", "gc_pause_usec_99", "gc_pause_usec_95", "next_gc_bytes",
             "gc_total_runs")  # fmt: skip
    memory = {name: number for number, name in enumerate(names, 1)}
    lines = StatsdLines("")
    found = lines.of(stats(memory=memory))
    assert found == [
        *(f"mem.{name}:{number}|g\n" for number, name in enumerate(names[:-1], 1)),
        "mem.gc_runs:9|c\n",
    ]
    assert lines.of(stats(memory={**memory, "gc_total_runs": 11}))[-1] == "mem.gc_runs:2|c\n"


def test_counters_are_told_as_differences() -> None:
    lines = StatsdLines("")
    told = [lines.of(stats(topic("t", count)))[0] for count in (5, 5, 9, 2, 3)]
    assert told == [f"topic.t.message_count:{told}|c\n" for told in (5, 0, 4, 2, 1)]


def test_a_topic_that_was_gone_for_a_while_starts_anew() -> None:
    lines = StatsdLines("")
    lines.of(stats(topic("t", 5)))
    assert lines.of(stats()) == []
    assert lines.of(stats(topic("t", 8)))[0] == "topic.t.message_count:8|c\n"


def test_ephemeral_names_may_be_left_out() -> None:
    seen = stats(
        topic("t", 1, channel("c", 1), channel("d#ephemeral", 1)),
        topic("u#ephemeral", 1, channel("c", 1)),
    )
    kept = StatsdLines("", exclude_ephemeral=True).of(seen)
    assert not [line for line in kept if "#ephemeral" in line]
    assert len(kept) == 12
    assert len(StatsdLines("").of(seen)) == 32


def test_packets_hold_whole_lines() -> None:
    lines = [f"line.{number}:1|c\n" for number in range(10)]
    assert packets([], 100) == []
    assert packets(lines, 1000) == ["".join(lines).encode()]
    size = len(lines[0])
    assert packets(lines, 3 * size) == [
        "".join(lines[start : start + 3]).encode() for start in (0, 3, 6, 9)
    ]
    assert packets(lines, 3 * size - 1) == packets(lines, 2 * size)
    assert packets(lines, 0) == [line.encode() for line in lines]


@pytest.mark.parametrize(
    ("prefix", "host", "resolved"),
    [
        ("nsq.%s", "127.0.0.1", "nsq.127_0_0_1_4151."),
        ("nsq.%s.", "a.example", "nsq.a_example_4151."),
        ("%s-%s", "h", "h_4151-h_4151."),
        ("plain", "h", "plain."),
        ("", "h", ""),
        ("nsq.%s", "::1", "nsq.[__1]_4151."),
    ],
)
def test_prefix(prefix: str, host: str, resolved: str) -> None:
    assert resolved_prefix(prefix, host, 4151) == resolved
