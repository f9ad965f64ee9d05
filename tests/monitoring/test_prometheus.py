"""A real Prometheus over real programs: it takes every page, and alerts fire in an outage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.core.metrics.catalogue import ALL
from penstock.nsq.client.blocking import Consumer
from penstock.testing.daemons import (
    Daemon,
    run_mqbroker,
    run_mqnamesrv,
    run_nsqadmin,
    run_nsqd,
    run_nsqlookupd,
)
from tests.metrics_pages import PATIENCE_S, ask, until
from tests.monitoring.prometheus import Prometheus, program, run_prometheus
from tools.harness.ports import unused_address
from tools.monitoring.alerts import Settings, groups
from tools.monitoring.dashboard import dashboard
from tools.monitoring.rules import rules

pytestmark = pytest.mark.nightly

QUICK = Settings(speed=60, disk_free=1e-9)
ALMOST_ALL_OF_THE_DISK = Settings(speed=60, disk_free=1.01)
EMPTY_HERE = {"nsqd_pipeline", "nsqd_auth", "nsqd_group", "nsqd_replica", "nsqd_follower"}
"""What no program here has: a pipeline, an auth server, a RocketMQ consumer, a second copy."""


@dataclass
class Watched:
    """Two nodes and what belongs to them, and the Prometheus that scrapes them."""

    prometheus: Prometheus
    nsqd: Daemon
    other: Daemon
    jobs: dict[str, list[str]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    program("prometheus")  # before anything else is started in vain
    with ExitStack() as stack:
        enter = stack.enter_context
        broker, name_server = unused_address(), unused_address()
        lookupd = enter(run_nsqlookupd("--metrics"))
        flags = ("--metrics", f"--lookupd-tcp-address={lookupd.tcp}",
                 "--e2e-processing-latency-percentile=0.99")  # fmt: skip
        nsqd, other = enter(run_nsqd(*flags)), enter(run_nsqd(*flags))
        admin = enter(run_nsqadmin("--metrics", f"--lookupd-http-address={lookupd.http}"))
        names = enter(run_mqnamesrv(monitoringAddress=name_server))
        enter(run_mqbroker(name_server=names.rocketmq, monitoringAddress=broker))
        jobs = {"nsqd": [nsqd.http, other.http], "nsqlookupd": [lookupd.http],
                "nsqadmin": [admin.http], "mqnamesrv": [name_server],
                "mqbroker": [broker]}  # fmt: skip
        home = tmp_path_factory.mktemp("prometheus")
        prometheus = enter(run_prometheus(home, jobs, rules(groups(QUICK), QUICK)))
        for node in (nsqd, other):
            ask(node.http, "/topic/create?topic=t", b"")
            ask(node.http, "/channel/create?topic=t&channel=c", b"")
            ask(node.http, "/log/commit?topic=t&group=g", b'{"offsets":{"0":0}}')
        assert until(lambda: prometheus.value("sum(up)") == 6)
        assert until(lambda: prometheus.value("count(nsqd_channel_depth)") == 2)
        yield Watched(prometheus, nsqd, other, jobs)


def test_every_metric_arrives_with_its_kind_and_help(watched: Watched) -> None:
    assert until(lambda: watched.prometheus.value("sum(penstock_ready)") == 6)
    found = watched.prometheus.metadata()
    for metric in ALL:
        if not metric.name.startswith(tuple(EMPTY_HERE)):
            assert found[metric.name] == (metric.kind, metric.help)


def _charts() -> Iterator[tuple[str, str]]:
    for panel in json.loads(dashboard())["panels"]:
        for target in panel.get("targets", ()):
            expr = re.sub(r"\$(job|instance|topic)", ".*", target["expr"])
            yield panel["title"], expr.replace("$__rate_interval", "1m")


@pytest.mark.parametrize(("title", "expr"), list(_charts()))
def test_every_chart_has_figures(watched: Watched, title: str, expr: str) -> None:
    is_empty_here = any(name in expr for name in EMPTY_HERE) and "vector(0)" not in expr
    if is_empty_here:
        assert not watched.prometheus.query(expr), title
    else:
        assert until(lambda: watched.prometheus.query(expr)), title


def _fires(watched: Watched, name: str, **labels: str) -> dict[str, Any] | None:
    """The alert of this name with these labels, if it fires."""
    firing = watched.prometheus.firing(name)
    return next((each for each in firing if each["labels"].items() >= labels.items()), None)


def test_a_channel_that_grows_without_consumers(watched: Watched) -> None:
    name, node = "ChannelWithoutConsumers", watched.nsqd
    until(lambda: not watched.prometheus.firing(name))

    def published() -> dict[str, Any] | None:
        ask(node.http, "/pub?topic=t", b"x")
        return _fires(watched, name, instance=node.http, topic="t", channel="c")

    alert = until(published)
    assert alert is not None
    assert alert["annotations"]["summary"] == f"{node.http}: nobody reads t/c, and it grows"
    assert alert["labels"]["severity"] == "warning"
    with Consumer("t", "c", nsqd_tcp_addresses=[node.tcp]) as consumer:

        def is_over() -> bool:
            ask(node.http, "/pub?topic=t", b"x")
            message = consumer.get(PATIENCE_S)
            assert message is not None
            message.finish()
            return not watched.prometheus.firing(name)

        assert until(is_over)  # while somebody reads


def test_a_node_that_is_killed_and_comes_back(watched: Watched) -> None:
    name, node = "PenstockDown", watched.other
    until(lambda: not watched.prometheus.firing(name))
    node.kill()
    alert = until(lambda: _fires(watched, name, job="nsqd", instance=node.http))
    assert alert is not None
    assert alert["annotations"]["summary"] == f"nsqd at {node.http} does not answer"
    assert alert["labels"]["severity"] == "critical"
    node.start()
    assert until(lambda: not watched.prometheus.firing(name))


def test_a_disk_that_is_nearly_full_by_the_limit_that_is_set(watched: Watched) -> None:
    name, settings = "DiskNearlyFull", ALMOST_ALL_OF_THE_DISK
    until(lambda: not watched.prometheus.firing(name))
    watched.prometheus.use(rules(groups(settings), settings))
    nodes = {*watched.jobs["nsqd"], *watched.jobs["mqbroker"]}
    firing = until(lambda: len(found := watched.prometheus.firing(name)) == 3 and found)
    assert firing
    assert {alert["labels"]["instance"] for alert in firing} == nodes
    assert re.fullmatch(r".*: [\d.]+[KMGTPE]?i?B are left on the disk of the data path",
                        firing[0]["annotations"]["summary"])  # fmt: skip
    watched.prometheus.use(rules(groups(QUICK), QUICK))
    assert until(lambda: not watched.prometheus.firing(name))
