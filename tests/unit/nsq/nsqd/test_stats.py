"""Figures of a node: groups, pipelines, TLS in Go's words, lines for a statsd."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup
from penstock.core.units import HOUR, SECOND
from penstock.log_api.pipeline_status import PipelineStatus, ReportedStatus
from penstock.net.tls.tls_layer import TlsLayer
from penstock.node.dialect import Dialect
from penstock.node.log_groups import LogGroup
from penstock.nsq.nsqd.stats import group_stats, pipelines
from penstock.nsq.nsqd.stats.pipelines import GroupsHere, Pipelines
from penstock.nsq.nsqd.stats.prometheus import of_pipelines
from penstock.nsq.nsqd.stats.stats import go_version, tls_fields
from penstock.nsq.nsqd.stats.statsd import StatsdLines, packets, resolved_prefix
from penstock.testing.clock import FakeClock

# --- groups in /stats


MEMBER = GroupMember("id", "127.0.0.1:5", "JAVA", 409)


class Groups:
    """A dialect of which only the groups are asked for."""

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        if topic != "t":
            return []
        return [ConsumerGroup("G", "CLUSTERING", [MEMBER], {0: 5, 1: 6}, 2, 1.25),
                ConsumerGroup("H", "BROADCASTING", [], {}, 0, 0.0)]  # fmt: skip

    def producer_groups(self) -> list[ProducerGroup]:
        return [ProducerGroup("PG", [MEMBER])]


DIALECTS = [cast(Dialect, Groups())]


def consumers(topic: str = "t", name: str = "", with_clients: bool = True) -> list[dict[str, Any]]:
    return group_stats.consumer_groups(DIALECTS, topic, name, with_clients=with_clients)


def test_of_a_topic() -> None:
    first, second = consumers()
    assert first == {
        "group_name": "G", "message_model": "CLUSTERING", "lag": 2,
        "committed": {"0": 5, "1": 6}, "rate": 1.25, "client_count": 1,
        "clients": [{"client_id": "id", "remote_address": "127.0.0.1:5", "language": "JAVA",
                     "version": 409}],
    }  # fmt: skip
    assert second["group_name"] == "H"
    assert consumers("other") == []
    assert [each["group_name"] for each in consumers(name="H")] == ["H"]
    assert consumers(with_clients=False)[0]["clients"] is None


def test_lines_of_consumers() -> None:
    lines = group_stats.consumer_lines({"consumer_groups": consumers()})
    assert lines == [
        "      {G                        } CLUSTERING   lag: 2        rate: 1.2      clients: 1    "
        "committed: 0=5,1=6\n",
        "        [JAVA id] 127.0.0.1:5 version: 409\n",
        "      {H                        } BROADCASTING lag: 0        rate: 0.0      clients: 0    "
        "committed: \n",
    ]
    assert group_stats.consumer_lines({}) == []


def test_producers() -> None:
    stats = {"producer_groups": group_stats.producer_groups(DIALECTS)}
    assert group_stats.producer_lines(stats) == [
        "\nProducer groups:\n",
        "   {PG                       } clients: 1\n",
        "        [JAVA id] 127.0.0.1:5 version: 409\n",
    ]
    assert group_stats.producer_lines({}) == group_stats.producer_lines({"producer_groups": []})


def test_log_groups() -> None:
    groups = [LogGroup("g", 5, 2, 1.25, "q1", 90_000, 3600, stale=True),
              LogGroup("h", 0, 9, 0.0)]  # fmt: skip
    found = group_stats.log_groups(groups, "")
    assert found == [
        {"group_name": "g", "committed": {"0": 5}, "lag": 2, "rate": 1.25, "owner": "q1",
         "age": 90_000, "expires_in": 3600, "stale": True},
        {"group_name": "h", "committed": {"0": 0}, "lag": 9, "rate": 0.0, "owner": None,
         "age": 0, "expires_in": None, "stale": False},
    ]  # fmt: skip
    assert group_stats.log_groups(groups, "h") == found[1:]
    assert group_stats.log_lines({"log_groups": found}) == [
        "      {g                        } LOG          lag: 2        rate: 1.2      "
        "age: 25h0m0s   committed: 0=5 owner: q1 STALE\n",
        "      {h                        } LOG          lag: 9        rate: 0.0      "
        "age: 0s        committed: 0=0\n",
    ]
    assert group_stats.log_lines({}) == []


# --- pipelines


def status(id: str = "q", state: Any = "running", **more: Any) -> PipelineStatus:
    return PipelineStatus(id, id, state, **more)


def table(clock: FakeClock, **lags: int) -> Pipelines:
    """A node with these topics, each of which has the group g with this lag."""
    topics: Any = {name: SimpleNamespace(groups={"g": 0}, lag=lag) for name, lag in lags.items()}
    found: Any = SimpleNamespace(lag=lambda topic, group: topic.lag if group == "g" else None)
    return Pipelines(clock, GroupsHere(topics, found))


def test_the_newest_counts_and_grows_old() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status(rows_read=1))
    found.told(status(rows_read=5))
    clock.advance(7 * SECOND)
    (kept,) = found.all()
    assert (kept.rows_read, kept.age) == (5, 7)


def test_the_lag_is_that_of_groups_on_this_node_as_it_is_now() -> None:
    found = table(FakeClock(), t=7, u=30)
    found.told(status("here", lag=1, groups=[("t", "g"), ("u", "g"), ("elsewhere", "g")]))
    found.told(status("there", lag=2, groups=[("elsewhere", "g")]))
    assert [(each.lag, each.lag_is_here) for each in found.all()] == [(37, True), (2, False)]


def test_a_pipeline_without_a_batch_has_the_lag_of_the_group_that_it_will_have() -> None:
    found = table(FakeClock(), t=24_540, u=7)
    found.told(status("one", groups=[("t", "g")]))
    found.told(status("any", groups=[("*", "g")]))
    found.told(status("other", groups=[("*", "h"), ("t", "h")]))
    one, any_topic, other = found.all()
    assert (one.batch, one.lag, one.lag_is_here) == (-1, 24_540, True)
    assert (any_topic.lag, any_topic.groups) == (24_547, [("t", "g"), ("u", "g")])
    assert (other.lag, other.lag_is_here) == (0, False)


def test_a_run_that_begins_again_is_counted_and_has_the_groups_of_the_one_before() -> None:
    found = table(FakeClock(), t=7)
    for started in (100.5, 100.5, 200.5):
        found.told(status(started=started, groups=[("t", "g")]))
    assert found.all()[0].restarts == 1
    found.told(status(started=300.5))
    (kept,) = found.all()
    assert (kept.restarts, kept.batch, kept.lag, kept.groups) == (2, -1, 7, [("t", "g")])


def test_the_last_error_outlives_the_next_run() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status(state="failed", error="disk is full"))
    failed_at = found.all()[0].error_at
    assert failed_at == round(clock.wall_ns() / SECOND, 3)
    clock.advance(60 * SECOND)
    for state in ("running", "stopped"):
        found.told(status(state=state))
        (kept,) = found.all()
        assert (kept.state, kept.error, kept.error_at) == (state, "disk is full", failed_at)
    found.told(status(state="failed", error="no node"))
    assert (found.all()[0].error, found.all()[0].error_at) == ("no node", failed_at + 60)


def test_silent_ones_are_forgotten_after_a_day() -> None:
    clock = FakeClock()
    found = table(clock)
    found.told(status("old"))
    found.told(status("alive"))
    clock.advance(20 * HOUR)
    found.told(status("alive"))
    clock.advance(5 * HOUR)
    assert [each.id for each in found.all()] == ["alive"]


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "PIPELINES_MAX", 2)
    found = table(FakeClock())
    for id in ("a", "b", "a", "c"):
        found.told(status(id))
    assert [each.id for each in found.all()] == ["a", "c"]


def test_each_figure_of_each_pipeline() -> None:
    told_pipelines = [
        ReportedStatus("1", "a", "running", rows_read=5, read_per_s=2.5, batch_ms=1500, lag=7),
        ReportedStatus("2", "a", "failed", error="e", error_at=1.5, age=3.25, state_bytes=9),
    ]
    text = "".join(metric.text() for metric in of_pipelines(told_pipelines))
    for line in (
        'running{pipeline="a",id="1"} 1', 'running{pipeline="a",id="2"} 0',
        'failed{pipeline="a",id="2"} 1', 'rows_read_total{pipeline="a",id="1"} 5',
        'read_rate{pipeline="a",id="1"} 2.5', 'batch_seconds{pipeline="a",id="1"} 1.5',
        'lag{pipeline="a",id="1"} 7', 'error_time_seconds{pipeline="a",id="2"} 1.5',
        'age_seconds{pipeline="a",id="2"} 3.25', 'state_bytes{pipeline="a",id="2"} 9',
    ):  # fmt: skip
        assert f"nsqd_pipeline_{line}\n" in text
    assert "".join(metric.text() for metric in of_pipelines([])) == ""


def test_a_lag_is_told_where_it_is_so_that_those_of_nodes_add_up() -> None:
    groups = [("orders", "lake")]
    here = ReportedStatus("1", "a", "running", groups=groups, lag=7, lag_is_here=True)
    elsewhere = ReportedStatus("1", "a", "running", groups=groups, lag=9)
    lags = [
        "nsqd_pipeline_lag{" in "".join(metric.text() for metric in of_pipelines([each]))
        for each in (here, elsewhere)
    ]
    assert lags == [True, False]


# --- TLS, in Go's words


class Agreed:
    """What a layer tells after its handshake."""

    version = "TLSv1.2"
    protocol = "h2"

    def __init__(self, name: str, number: int) -> None:
        self.cipher = (name, number)


def test_without_tls() -> None:
    assert list(tls_fields(None).items()) == [
        ("tls", False),
        ("tls_cipher_suite", ""),
        ("tls_version", ""),
        ("tls_negotiated_protocol", ""),
        ("tls_negotiated_protocol_is_mutual", False),
    ]


@pytest.mark.parametrize(
    ("name", "number", "shown"),
    [
        ("ECDHE-RSA-AES128-GCM-SHA256", 0xC02F, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("AES128-SHA", 0x2F, "TLS_RSA_WITH_AES_128_CBC_SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", 0xC030, "Unknown 49200"),
        ("TLS_AES_128_GCM_SHA256", 0x1301, "Unknown 4865"),
    ],
)
def test_suites(name: str, number: int, shown: str) -> None:
    fields = tls_fields(cast(TlsLayer, Agreed(name, number)))
    assert fields == {
        "tls": True,
        "tls_cipher_suite": shown,
        "tls_version": "TLS1.2",
        "tls_negotiated_protocol": "h2",
        "tls_negotiated_protocol_is_mutual": True,
    }


@pytest.mark.parametrize(
    ("openssl", "go"),
    [("TLSv1", "TLS1.0"), ("TLSv1.1", "TLS1.1"), ("TLSv1.2", "TLS1.2"), ("TLSv1.3", "TLS1.3")],
)
def test_versions(openssl: str, go: str) -> None:
    assert go_version(openssl) == go


# --- statsd


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
