"""Metrics of nsqd's ports over a node: connections, AUTH, nsqlookupds, staged parts, pipelines."""

from __future__ import annotations

from typing import Final

from penstock.core.metrics.declared import (
    BYTES,
    COUNT,
    FLAG,
    MESSAGES,
    SECONDS,
    TIMESTAMP,
    MetricList,
)

LIST: Final = MetricList()
_ROWS: Final = "rows"
_ROW_RATE: Final = "rows a second"
_OF_PIPELINE: Final = ("pipeline", "id")

BUILD_INFO: Final = LIST.gauge(
    "nsqd_build_info", "Versions; the value is always 1.", FLAG, "version", "penstock", "python"
)
STAGED_BATCHES: Final = LIST.gauge("nsqd_staged_batches", "Batches staged and not committed.")
STAGED_BYTES: Final = LIST.gauge("nsqd_staged_bytes", "Bytes of their parts.", BYTES)
STAGED_BYTES_MAX: Final = LIST.gauge(
    "nsqd_staged_bytes_max", "The most bytes that may be staged.", BYTES
)
CONNECTIONS: Final = LIST.gauge("nsqd_connections", "Open TCP connections.")
TLS_CONNECTIONS: Final = LIST.gauge("nsqd_tls_connections", "Those of them that use TLS.")
COMPRESSED_CONNECTIONS: Final = LIST.gauge(
    "nsqd_compressed_connections", "Those that are compressed.", COUNT, "compression"
)
LOOKUPDS: Final = LIST.gauge("nsqd_lookupds", "The nsqlookupds it is configured to register at.")
LOOKUPDS_CONNECTED: Final = LIST.gauge(
    "nsqd_lookupds_connected", "Those of them that it is connected to."
)
AUTH_QUERIES: Final = LIST.counter(
    "nsqd_auth_queries_total", "Clients that auth servers were asked about."
)
AUTH_FAILURES: Final = LIST.counter(
    "nsqd_auth_failures_total", "Those queries without a valid answer."
)
AUTH_DENIALS: Final = LIST.counter(
    "nsqd_auth_denials_total", "Commands that the answers did not allow."
)

PIPELINE_RUNNING: Final = LIST.gauge(
    "nsqd_pipeline_running",
    "1 while the pipeline runs, by its last report.",
    FLAG,
    *_OF_PIPELINE,
)
PIPELINE_FAILED: Final = LIST.gauge(
    "nsqd_pipeline_failed", "1 after it ended with an error.", FLAG, *_OF_PIPELINE
)
PIPELINE_AGE: Final = LIST.gauge(
    "nsqd_pipeline_age_seconds",
    "Time since its last report; every 10 s while it runs.",
    SECONDS,
    *_OF_PIPELINE,
)
PIPELINE_ROWS_READ: Final = LIST.counter(
    "nsqd_pipeline_rows_read_total", "Rows from its source in this run.", _ROWS, *_OF_PIPELINE
)
PIPELINE_ROWS_WRITTEN: Final = LIST.counter(
    "nsqd_pipeline_rows_written_total", "Rows to its sink in this run.", _ROWS, *_OF_PIPELINE
)
PIPELINE_ROWS_BAD: Final = LIST.counter(
    "nsqd_pipeline_rows_bad_total", "Rows in this run that did not parse.", _ROWS, *_OF_PIPELINE
)
PIPELINE_READ_RATE: Final = LIST.gauge(
    "nsqd_pipeline_read_rate",
    "Rows a second from its source, of a minute.",
    _ROW_RATE,
    *_OF_PIPELINE,
)
PIPELINE_WRITTEN_RATE: Final = LIST.gauge(
    "nsqd_pipeline_written_rate",
    "Rows a second to its sink, of a minute.",
    _ROW_RATE,
    *_OF_PIPELINE,
)
PIPELINE_LAG: Final = LIST.gauge(
    "nsqd_pipeline_lag", "Messages on this node that it has not read.", MESSAGES, *_OF_PIPELINE
)
PIPELINE_BATCHES: Final = LIST.counter(
    "nsqd_pipeline_batches_total", "Micro-batches in this run.", COUNT, *_OF_PIPELINE
)
PIPELINE_BATCH_SECONDS: Final = LIST.gauge(
    "nsqd_pipeline_batch_seconds", "Time of its last micro-batch.", SECONDS, *_OF_PIPELINE
)
PIPELINE_STATE_ROWS: Final = LIST.gauge(
    "nsqd_pipeline_state_rows",
    "Rows that windows, joins and unique rows remember.",
    _ROWS,
    *_OF_PIPELINE,
)
PIPELINE_STATE_BYTES: Final = LIST.gauge(
    "nsqd_pipeline_state_bytes", "Memory of these rows.", BYTES, *_OF_PIPELINE
)
PIPELINE_ERROR_TIME: Final = LIST.gauge(
    "nsqd_pipeline_error_time_seconds",
    "Time of its last error in seconds since 1970; 0: there was none.",
    TIMESTAMP,
    *_OF_PIPELINE,
)
