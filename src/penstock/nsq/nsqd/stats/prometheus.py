"""The metrics of NSQ's ports: connections, AUTH, nsqlookupds, staged parts, pipelines.

NSQ has no such page. Names follow Prometheus' customs: counters end in ``_total``, times are
seconds, sizes bytes.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final

import penstock
from penstock.core.metrics import nsqd as metrics
from penstock.core.metrics.declared import Metric
from penstock.core.metrics.exposition import Samples, labels
from penstock.core.settings.version import NSQ_VERSION
from penstock.log_api.pipeline_status import ReportedStatus
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqd.stats.stat_sources import StatSources


def _lag_here(status: ReportedStatus) -> float | None:
    """The lag that is this node's; none where a pipeline reads from others and writes here."""
    return status.lag if status.lag_is_here or not status.groups else None


_PIPELINE_FIGURES: Final[tuple[tuple[Metric, Callable[[ReportedStatus], float | None]], ...]] = (
    (metrics.PIPELINE_RUNNING, lambda status: status.state == "running"),
    (metrics.PIPELINE_FAILED, lambda status: status.state == "failed"),
    (metrics.PIPELINE_AGE, lambda status: status.age),
    (metrics.PIPELINE_ROWS_READ, lambda status: status.rows_read),
    (metrics.PIPELINE_ROWS_WRITTEN, lambda status: status.rows_written),
    (metrics.PIPELINE_ROWS_BAD, lambda status: status.rows_bad),
    (metrics.PIPELINE_READ_RATE, lambda status: status.read_per_s),
    (metrics.PIPELINE_WRITTEN_RATE, lambda status: status.written_per_s),
    (metrics.PIPELINE_LAG, _lag_here),
    (metrics.PIPELINE_BATCHES, lambda status: status.batches),
    (metrics.PIPELINE_BATCH_SECONDS, lambda status: status.batch_ms / 1000),
    (metrics.PIPELINE_STATE_ROWS, lambda status: status.state_rows),
    (metrics.PIPELINE_STATE_BYTES, lambda status: status.state_bytes),
    (metrics.PIPELINE_ERROR_TIME, lambda status: status.error_at),
)


class NsqdMetrics:
    """The figures of one nsqd beside those of its node; ``source`` is for its ``Vitals``."""

    def __init__(self, sources: StatSources, lookup: Lookup) -> None:
        self._sources = sources
        self._lookup = lookup

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the ports."""
        versions = (NSQ_VERSION, penstock.__version__, platform.python_version())
        yield Samples.single(metrics.BUILD_INFO, 1, *versions)
        pipelines = self._sources.pipelines.all()
        for samples in (
            *self._of_staged(),
            *self._of_connections(),
            *self._of_others(),
            *of_pipelines(pipelines),
        ):
            yield samples

    def _of_staged(self) -> Iterator[Samples]:
        staged = self._sources.staged_parts.parts
        yield Samples.single(metrics.STAGED_BATCHES, len(staged))
        yield Samples.single(metrics.STAGED_BYTES, staged.nbytes)
        yield Samples.single(metrics.STAGED_BYTES_MAX, staged.nbytes_max)

    def _of_connections(self) -> Iterator[Samples]:
        sessions = self._sources.sessions
        yield Samples.single(metrics.CONNECTIONS, len(sessions))
        tls = sum(session.connection.is_tls for session in sessions)
        yield Samples.single(metrics.TLS_CONNECTIONS, tls)
        compressed = Samples(metrics.COMPRESSED_CONNECTIONS)
        compressions = [session.connection.compression for session in sessions]
        for kind in ("snappy", "deflate"):
            compressed.add(compressions.count(kind), labels({"compression": kind}))
        yield compressed

    def _of_others(self) -> Iterator[Samples]:
        """Programs that nsqd asks: nsqlookupds, auth servers."""
        peers = self._lookup.peers.values()
        yield Samples.single(metrics.LOOKUPDS, len(peers))
        yield Samples.single(metrics.LOOKUPDS_CONNECTED, sum(peer.connected for peer in peers))
        servers = self._sources.auth_servers
        if servers is not None:
            yield Samples.single(metrics.AUTH_QUERIES, servers.query_count)
            yield Samples.single(metrics.AUTH_FAILURES, servers.failure_count)
            yield Samples.single(metrics.AUTH_DENIALS, servers.denial_count)


def of_pipelines(pipelines: Iterable[ReportedStatus]) -> list[Samples]:
    """The metrics of the pipelines that tell this node how they are, each by its name and id.

    A pipeline tells every node that it reads from. Its lag is that on the node, so that lags of
    several nodes add up; all else is the pipeline's as a whole, and the same on each.
    """
    shown = [(labels({"pipeline": status.name, "id": status.id}), status) for status in pipelines]
    found = []
    for metric, value in _PIPELINE_FIGURES:
        samples = Samples(metric)
        for pair, status in shown:
            if (figure := value(status)) is not None:
                samples.add(figure, pair)
        found.append(samples)
    return found
