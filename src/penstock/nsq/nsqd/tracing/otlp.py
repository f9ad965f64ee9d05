"""Spans on their way to a collector: OpenTelemetry's SDK and its exporter of OTLP over HTTP.

This module needs the extra ``otel`` and is imported only while tracing is on. Where spans go, with
which headers, and how many wait is set by the SDK's own environment variables (``OTEL_…``).
"""

from __future__ import annotations

import logging
import os
from threading import Thread
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from penstock import __version__
from penstock.core.redaction import without_secrets
from penstock.nsq.nsqd.tracing.message_spans import MessageSpan
from penstock.nsq.trace_context import SpanIds

logger = logging.getLogger("penstock.nsqd")

CLOSE_S_MAX: Final = 3.0
"""Time that the last spans have to reach the collector; nsqd's stop does not wait longer."""


class _Lines(logging.Handler):
    """The SDK's log lines among nsqd's, without their tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        logger.log(record.levelno, "TRACES: %s", record.getMessage())


class _GivenIds(IdGenerator):
    """Identifiers of the span that is made next, as they are computed and not drawn."""

    ids = SpanIds(1, 1)

    def generate_trace_id(self) -> int:
        return self.ids.trace_id

    def generate_span_id(self) -> int:
        return self.ids.span_id


class Otlp:
    """A tracer provider for one nsqd, which sends in batches from a separate thread."""

    def __init__(self, instance: str) -> None:
        """``instance`` tells this nsqd from others. Raises ValueError for ``OTEL_…`` variables that
        cannot be used.
        """
        theirs = logging.getLogger("opentelemetry")
        theirs.handlers[:] = [_Lines(logging.ERROR)]  # it warns at each retry
        theirs.propagate = False
        ours = {"service.name": "nsqd", "service.version": __version__,
                "service.instance.id": instance}  # fmt: skip
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self.address = _address()
        self._given = _GivenIds()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._given, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("penstock.nsqd", __version__)

    def emit(self, span: MessageSpan) -> None:
        """Hand a span over to be sent; it is dropped if too many wait."""
        self._given.ids = span.ids
        operation = "deliver" if span.parent else "publish"
        made = self._tracer.start_span(
            f"{operation} {span.topic}",
            context=_context(span.parent),
            kind=SpanKind.PRODUCER if span.parent else SpanKind.SERVER,
            attributes=_attributes(span, operation),
            start_time=span.start_ns,
        )
        if span.outcome == "timed out":
            made.set_status(StatusCode.ERROR, "timed out")
        made.end(end_time=span.end_ns)

    def close(self) -> None:
        """Send what waits, for ``CLOSE_S_MAX`` at most."""
        # The SDK's own time-outs add up to half a minute at a collector that does not answer.
        closing = Thread(target=self._provider.shutdown, name="close traces", daemon=True)
        closing.start()
        closing.join(CLOSE_S_MAX)


def _address() -> str:
    """The collector's URL for log lines, as the exporter reads it, without passwords."""
    every_signal = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
    return without_secrets(
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        or f"{every_signal.rstrip('/')}/v1/traces"
    )


def _context(parent: SpanIds | None) -> Context:
    """A context in which a span gets this parent; without one, a context with no parent at all."""
    if parent is None:
        return Context()
    found = SpanContext(*parent, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(found), Context())


def _attributes(span: MessageSpan, operation: str) -> dict[str, str | int]:
    """OpenTelemetry's names for messaging, and two of NSQ's own."""
    found: dict[str, str | int] = {
        "messaging.system": "nsq",
        "messaging.operation.name": operation,
        "messaging.destination.name": span.topic,
        "messaging.message.id": f"{span.message_id:016x}",
    }
    if span.parent:
        found["messaging.consumer.group.name"] = span.channel
        found["nsq.message.attempts"] = span.attempts
        found["nsq.message.outcome"] = span.outcome
    return found
