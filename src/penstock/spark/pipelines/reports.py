"""The reports of a pipeline: what its file says, and the nodes that get them from the start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.core.names import is_valid_name
from penstock.spark.cluster_options import cluster_options_of
from penstock.spark.figures import ANY_TOPIC, QueryFacts
from penstock.spark.nodes.directory import Directory
from penstock.spark.pipelines import own
from penstock.spark.pipelines.spec import Spec
from penstock.spark.source_settings import SourceSettings

_PATIENCE_S = 1.0


def about(spec: Spec) -> QueryFacts:
    """The pipeline's query. Nodes of the source get reports, or of the sink where it has none."""
    return _about(str(spec.source), str(spec.sink), spec.query or "", spec, "")


def about_bad(spec: Spec) -> QueryFacts:
    """The query behind it, of the rows that do not parse."""
    return _about(str(spec.source), f"nsq {spec.parse.bad}", "", spec, ".bad")


def _about(source: str, sink: str, sql: str, spec: Spec, suffix: str) -> QueryFacts:
    for options in (spec.source.options, spec.sink.options):
        settings = _reach(options)
        if settings is not None:
            groups = _groups(spec, suffix)
            return QueryFacts(source, sink, sql, settings.access, _Nodes(settings), groups)
    return QueryFacts(source, sink, sql)


def _groups(spec: Spec, suffix: str) -> tuple[tuple[str, str], ...]:
    """The topics and groups of a query that begins with the oldest messages: its group is there,
    at their start, before its first batch. Where else it begins is known with that batch.
    """
    given = {key.lower(): value for key, value in spec.source.options.items()}
    begins = given.get("startingoffsets", "").strip().lower()
    if not spec.source.reads_log or begins != "earliest" or "groupidprefix" in given:
        return ()
    topics = given.get("topic", ANY_TOPIC)
    group = own.group_name(topics, spec.run.checkpoint, spec.name + suffix)
    group = given["group"] + suffix if "group" in given else group
    return tuple((each.strip(), group) for each in topics.split(",") if each.strip())


def _reach(options: Mapping[str, str]) -> SourceSettings | None:
    """The nodes that options name, None if they name none."""
    given = {key.lower(): value for key, value in options.items()}
    if not {"lookupd_http_address", "nsqd_http_address"} & set(given):
        return None
    # RocketMQ's topics may have names that NSQ's cannot have: then all nodes are told.
    topic = given.get("topic", "*")
    is_nsq = all(is_valid_name(each.strip()) for each in topic.split(","))
    asked = {**cluster_options_of(options), "topic": topic if is_nsq else "*"}
    return replace(SourceSettings.parse(asked), timeout_s=_PATIENCE_S)


class _Nodes:
    """The nodes that options name, or that nsqlookupd names for the topic."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._directory = Directory(settings)

    def __call__(self) -> Collection[str]:
        return self._settings.nodes or self._directory.topics_at().keys()
