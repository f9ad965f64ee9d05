"""The dashboard for Grafana, made of the metrics' declarations: units, labels, helps, rates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from penstock.core.metrics import (
    mqbroker,
    mqnamesrv,
    node,
    nsqadmin,
    nsqd,
    nsqlookupd,
    process,
    replication,
)
from penstock.core.metrics.declared import BYTES, SECONDS, Kind, Metric

from .alerts import JOBS

_COLUMNS: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_UNITS: Final = {(BYTES, False): "bytes", (BYTES, True): "Bps", (SECONDS, False): "s"}
"""Grafana's names of units, by that of a metric and whether it is a rate."""


class Query(NamedTuple):
    """An expression, and the text of a line's legend."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A chart, or a figure with a chart behind it."""

    title: str
    help: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"


class Row(NamedTuple):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def selected(metric: Metric, suffix: str = "") -> str:
    """The series of a metric that the dashboard's variables select."""
    chosen = ['job=~"$job"', 'instance=~"$instance"']
    chosen += ['topic=~"$topic"'] if "topic" in metric.labels else []
    return f"{metric.name}{suffix}{{{','.join(chosen)}}}"


def plot(title: str, *metrics: Metric, by: tuple[str, ...] = ()) -> Panel:
    """A chart of metrics, summed up by labels: counters as their rate, gauges as they are."""
    queries = tuple(_query(metric, by, named=len(metrics) > 1) for metric in metrics)
    helps = " ".join(dict.fromkeys(metric.help for metric in metrics))
    is_rate = metrics[0].kind is Kind.COUNTER
    help = f"{helps} Per second." if is_rate else helps
    unit = _UNITS.get((metrics[0].unit, is_rate), "cps" if is_rate else "short")
    return Panel(title, help, unit, queries)


def _query(metric: Metric, by: tuple[str, ...], *, named: bool) -> Query:
    series = selected(metric)
    if metric.kind is Kind.COUNTER:
        series = f"rate({series}[$__rate_interval])"
    what = metric.name.removesuffix("_total").partition("_")[2].replace("_", " ")
    legend = " ".join([*(f"{{{{{label}}}}}" for label in by), *([what] if named else [])])
    summed = f"sum by ({', '.join(by)}) ({series})" if by else f"sum({series})"
    return Query(summed, legend or what)


def figure(title: str, help: str, expr: str, unit: str = "short") -> Panel:
    """One number."""
    return Panel(title, help, unit, (Query(expr, title),), "stat")


def chart(title: str, help: str, unit: str, *queries: Query) -> Panel:
    """A chart of expressions written out in full."""
    return Panel(title, help, unit, queries)


_TOPIC: Final = ("topic",)
_CHANNEL: Final = ("topic", "channel")
_GROUP: Final = ("topic", "group")
_INSTANCE: Final = ("instance",)


def rows() -> tuple[Row, ...]:
    """The whole dashboard."""
    return (
        Row("Overview", _overview()),
        Row("Topics", _topics()),
        Row("Channels", _channels()),
        Row("RocketMQ", _rocketmq()),
        Row("Readers of the log, pipelines", _pipelines()),
        Row("Copies", _copies()),
        Row("Machines", _machines()),
        Row("Name services, nsqadmin", _directory()),
    )


def _overview() -> tuple[Panel, ...]:
    published, delivered = selected(node.TOPIC_MESSAGES), selected(node.CHANNEL_DELIVERIES)
    got = selected(mqbroker.GOT_MESSAGES)
    return (
        figure("Programs", "Programs that answer.", f'sum(up{{{JOBS},job=~"$job"}})'),
        figure("Down", "Programs that do not answer.",
               f'count(up{{{JOBS},job=~"$job"}} == 0) or vector(0)'),
        figure("Not ready", process.READY.help,
               f"count({selected(process.READY)} == 0) or vector(0)"),
        figure("Unhealthy nodes", node.HEALTHY.help,
               f"count({selected(node.HEALTHY)} == 0) or vector(0)"),
        figure("Alerts", "Alerts that fire.", 'count(ALERTS{alertstate="firing"}) or vector(0)'),
        figure("Published", node.TOPIC_MESSAGES.help + " Per second.",
               f"sum(rate({published}[$__rate_interval]))", "cps"),
        figure("Delivered", node.CHANNEL_DELIVERIES.help + " RocketMQ's too, per second.",
               f"(sum(rate({delivered}[$__rate_interval])) or vector(0)) + "
               f"(sum(rate({got}[$__rate_interval])) or vector(0))", "cps"),
        figure("Backlog", "Messages that wait in channels, and behind groups of RocketMQ.",
               f"(sum({selected(node.CHANNEL_DEPTH)}) or vector(0)) + "
               f"(sum({selected(node.GROUP_LAG)}) or vector(0))"),
    )  # fmt: skip


def _topics() -> tuple[Panel, ...]:
    return (
        plot("Published messages", node.TOPIC_MESSAGES, by=_TOPIC),
        plot("Published bytes", node.TOPIC_BYTES, by=_TOPIC),
        plot("Refused and dropped", node.TOPIC_REFUSED, node.TOPIC_DROPPED, by=_TOPIC),
        plot("Without a channel", node.TOPIC_DEPTH, by=_TOPIC),
        plot("Lost", node.TOPIC_LOST, by=_TOPIC),
        plot("Paused topics and channels", node.TOPIC_PAUSED, node.CHANNEL_PAUSED, by=_TOPIC),
    )


def _channels() -> tuple[Panel, ...]:
    latency = Query(
        f"max by (topic, channel, quantile) ({selected(node.CHANNEL_LATENCY)})",
        "{{topic}} {{channel}} {{quantile}}",
    )
    return (
        plot("Backlog by channel", node.CHANNEL_DEPTH, by=_CHANNEL),
        plot("Deliveries", node.CHANNEL_DELIVERIES, by=_CHANNEL),
        plot("In flight", node.CHANNEL_IN_FLIGHT, by=_CHANNEL),
        plot("Deferred", node.CHANNEL_DEFERRED, by=_CHANNEL),
        plot("Requeues and time-outs", node.CHANNEL_REQUEUES, node.CHANNEL_TIMEOUTS, by=_CHANNEL),
        plot("Dead letters", node.CHANNEL_DEAD_LETTERS, by=_CHANNEL),
        plot("Consumers", node.CHANNEL_CLIENTS, by=_CHANNEL),
        chart("Publish to finish", node.CHANNEL_LATENCY.help, "s", latency),
    )


def _rocketmq() -> tuple[Panel, ...]:
    return (
        plot("Lag", node.GROUP_LAG, by=_GROUP),
        plot("Consumed", node.GROUP_RATE, by=_GROUP),
        plot("Members", node.GROUP_MEMBERS, by=_GROUP),
        plot("Stored and delivered", mqbroker.PUT_MESSAGES, mqbroker.GOT_MESSAGES, by=_INSTANCE),
        plot("Failed sends", mqbroker.PUT_FAILURES, by=_INSTANCE),
        plot("Delayed messages", mqbroker.DELAYED, mqbroker.TIMERS, by=_INSTANCE),
        plot("Pulls", mqbroker.PULLS, by=("instance", "found")),
        plot("Waiting pulls, connections", mqbroker.HELD_PULLS, mqbroker.CONNECTIONS,
             by=_INSTANCE),
    )  # fmt: skip


def _pipelines() -> tuple[Panel, ...]:
    of_pipeline = ("pipeline",)
    return (
        plot("Lag of log groups", node.LOG_GROUP_LAG, by=_GROUP),
        plot("Age of log groups", node.LOG_GROUP_AGE, by=_GROUP),
        plot("Staged bytes", nsqd.STAGED_BYTES, nsqd.STAGED_BYTES_MAX, by=_INSTANCE),
        plot("Lag of pipelines", nsqd.PIPELINE_LAG, by=of_pipeline),
        _of_pipeline("Rows read and written", nsqd.PIPELINE_READ_RATE, nsqd.PIPELINE_WRITTEN_RATE),
        _of_pipeline("Last micro-batch", nsqd.PIPELINE_BATCH_SECONDS),
        _of_pipeline("State", nsqd.PIPELINE_STATE_BYTES),
        _of_pipeline("Failed", nsqd.PIPELINE_FAILED),
    )


def _of_pipeline(title: str, *metrics: Metric) -> Panel:
    """A chart of figures that every node has of the whole pipeline."""
    summed = plot(title, *metrics, by=("pipeline",))
    queries = tuple(
        each._replace(expr=each.expr.replace("sum by", "max by", 1)) for each in summed.queries
    )
    return summed._replace(queries=queries)


def _copies() -> tuple[Panel, ...]:
    of_follower = ("instance", "follower")
    return (
        plot("Lag of copies", replication.LAG_MESSAGES, by=_INSTANCE),
        plot("Age of what copies may lack", replication.LAG_SECONDS, by=_INSTANCE),
        plot("Lag of followers, at their primary", replication.FOLLOWER_MESSAGES, by=of_follower),
        plot("Copies of an OK", replication.REPLICAS_ACKED, replication.REPLICAS_IN_FORCE,
             by=_INSTANCE),
        plot("Publishes that wait for copies", replication.REPLICAS_WAITING, by=_INSTANCE),
    )  # fmt: skip


def _machines() -> tuple[Panel, ...]:
    free = f"{selected(node.DISK_FREE)} / {selected(node.DISK_SIZE)}"
    files = f"{selected(process.OPEN_FILES)} / {selected(process.OPEN_FILES_MAX)}"
    where = "{{job}} {{instance}}"
    pauses = Query(selected(process.GC_PAUSES), f"{where} {{{{quantile}}}}")
    return (
        plot("Processor", process.CPU, by=("job", "instance"))._replace(unit="percentunit"),
        plot("Memory", process.RESIDENT, by=("job", "instance")),
        chart("Free disk", node.DISK_FREE.help, "percentunit", Query(free, "{{instance}}")),
        chart("File handles used", process.OPEN_FILES.help, "percentunit", Query(files, where)),
        plot("Memory of requests and answers", node.REQUEST_BYTES, node.ANSWER_BYTES,
             by=_INSTANCE),
        plot("Refused for want of memory", node.REQUEST_REFUSED, node.ANSWER_REFUSED,
             by=_INSTANCE),
        plot("Connections of NSQ's clients", nsqd.CONNECTIONS, nsqd.TLS_CONNECTIONS, by=_INSTANCE),
        chart("Pauses of the garbage collector", process.GC_PAUSES.help, "s", pauses),
    )  # fmt: skip


def _directory() -> tuple[Panel, ...]:
    return (
        plot("Producers at nsqlookupd", nsqlookupd.PRODUCERS, nsqlookupd.SILENT_PRODUCERS,
             by=_INSTANCE),
        plot("Look-ups", nsqlookupd.LOOKUPS, by=("instance", "found")),
        plot("Connections to nsqlookupds", nsqd.LOOKUPDS, nsqd.LOOKUPDS_CONNECTED, by=_INSTANCE),
        plot("Brokers at mqnamesrv", mqnamesrv.BROKERS, by=_INSTANCE),
        plot("Routes asked for", mqnamesrv.ROUTES, by=("instance", "found")),
        plot("Connections to name servers", mqbroker.NAME_SERVERS, mqbroker.NAME_SERVERS_CONNECTED,
             by=_INSTANCE),
        plot("Daemons that nsqadmin sees", nsqadmin.NODES, nsqadmin.FAILURES, by=_INSTANCE),
        plot("Time of a look at all nodes", nsqadmin.LOOK_SECONDS, by=_INSTANCE),
    )  # fmt: skip


def dashboard() -> str:
    """The file that Grafana imports."""
    value = {
        "uid": "penstock",
        "title": "Penstock",
        "description": "Written by `make pages` from the list of metrics.",
        "tags": ["penstock", "nsq", "rocketmq"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": [_restarts()]},
        "templating": {"list": list(_variables())},
        "panels": list(_placed(rows())),
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _restarts() -> dict[str, Any]:
    return {
        "name": "Starts",
        "enable": True,
        "iconColor": "orange",
        "datasource": _SOURCE,
        "expr": f"changes({selected(process.START_TIME)}[2m]) > 0",
        "titleFormat": "{{job}} {{instance}} started",
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource",
           "query": "prometheus", "current": {}}  # fmt: skip
    for name, label, query in (
        ("job", "Program", f"label_values({process.INFO.name}, job)"),
        ("instance", "Address", f'label_values({process.INFO.name}{{job=~"$job"}}, instance)'),
        (
            "topic",
            "Topic",
            f'label_values({node.TOPIC_DEPTH.name}{{instance=~"$instance"}}, topic)',
        ),
    ):
        yield {
            "name": name, "label": label, "type": "query", "datasource": _SOURCE, "query": query,
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }  # fmt: skip


def _placed(found: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows and panels, each at its place on a grid of 24 columns."""
    number, y = 0, 0
    for row in found:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1}}  # fmt: skip
        y += 1
        is_figures = row.panels[0].kind == "stat"
        width, height = (3, _STAT_HEIGHT) if is_figures else (6, _HEIGHT)
        for index, panel in enumerate(row.panels):
            number += 1
            column, line = index * width % _COLUMNS, index * width // _COLUMNS
            place = {"x": column, "y": y + line * height, "w": width, "h": height}
            yield _panel(number, panel, place)
        y += (len(row.panels) * width + _COLUMNS - 1) // _COLUMNS * height


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query.expr,
         "legendFormat": query.legend}
        for index, query in enumerate(panel.queries)
    ]  # fmt: skip
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": targets,
    }


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area",
             "colorMode": "value"},
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                   "tooltip": {"mode": "multi", "sort": "desc"}},
}  # fmt: skip
