"""The metrics of NSQ's ports: connections, AUTH, nsqlookupds, staged parts, pipelines.

NSQ has no such page. Names follow Prometheus' customs: counters end in ``_total``, times are
seconds, sizes bytes.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Iterator

import penstock
from penstock.core.metrics import nsqd as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqd.stats import pipeline_metrics
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.version import NSQ_VERSION


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
        for samples in (*self._of_staged(), *self._of_connections(), *self._of_others(),
                        *pipeline_metrics.of(pipelines)):  # fmt: skip
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
