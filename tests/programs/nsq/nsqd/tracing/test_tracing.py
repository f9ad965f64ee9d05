"""Traces of a real nsqd, as a collector gets them over OTLP."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.propagate import extract
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import get_current_span

from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.trace_context import traceparent
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import DaemonError, run_nsqd
from tests.forwarding import Sink, bodies_in, create, publish
from tests.programs.nsq.nsqd.conftest import Start
from tools.harness.patience import patient_nsqd

PATIENT = patient_nsqd("penstock.nsq.nsqd.tracing.otlp", "CLOSE_S_MAX")
"""An nsqd that waits at its end for a collector that has no processor for seconds."""


class Collector(Sink):
    """An OTLP receiver."""

    def groups(self) -> Iterator[Any]:
        """The spans of one nsqd each, with its resource."""
        for request in list(self.requests):
            assert request.path == "/v1/traces"
            yield from ExportTraceServiceRequest.FromString(request.body).resource_spans

    def spans(self) -> list[Any]:
        """All spans so far, in the order of their ends."""
        found = [
            span for group in self.groups() for each in group.scope_spans for span in each.spans
        ]
        return sorted(found, key=lambda span: span.end_time_unix_nano)

    def resource(self) -> dict[str, str]:
        """The attributes of the nsqd that has sent spans."""
        *_, group = self.groups()
        return {each.key: each.value.string_value for each in group.resource.attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with closing(Collector()) as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{found.address}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        yield found


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def test_a_message_from_its_publish_to_its_finish(start: Start, collector: Collector) -> None:
    clock = FakeClock()
    nsqd = await start(clock, trace_messages=1, msg_timeout=SECOND)
    await nsqd.publish("orders", b"one")
    client = await nsqd.consumer("orders", "billing")
    message_id = (await client.message()).id
    client.send(b"REQ %b 0\n" % message_id)
    assert (await client.message()).attempts == 2
    clock.advance(2 * SECOND)
    assert (await client.message()).attempts == 3
    client.send(b"FIN %b\n" % message_id)
    await nsqd.until(lambda: len(collector.spans()) == 4)
    root, *deliveries = sorted(collector.spans(), key=lambda span: bool(span.parent_span_id))
    by_attempts = {attributes(each)["nsq.message.attempts"]: each for each in deliveries}
    assert (root.name, root.parent_span_id) == ("publish orders", b"")
    assert attributes(root) == {
        "messaging.system": "nsq",
        "messaging.operation.name": "publish",
        "messaging.destination.name": "orders",
        "messaging.message.id": message_id.decode(),
    }
    outcomes = {
        number: attributes(each)["nsq.message.outcome"] for number, each in by_attempts.items()
    }
    assert outcomes == {1: "requeued", 2: "timed out", 3: "finished"}
    for number, span in by_attempts.items():
        assert (span.name, span.parent_span_id) == ("deliver orders", root.span_id)
        assert attributes(span)["messaging.consumer.group.name"] == "billing"
        assert span.status.message == ("timed out" if number == 2 else "")
        # A consumer's own span, made as OpenTelemetry teaches, is a child of the delivery.
        header = traceparent("orders", "billing", message_id, number)
        seen = get_current_span(extract({"traceparent": header})).get_span_context()
        assert seen.trace_id.to_bytes(16) == span.trace_id == root.trace_id
        assert seen.span_id.to_bytes(8) == span.span_id
        assert seen.trace_flags.sampled


def test_channels_that_are_there_already_are_traced(collector: Collector) -> None:
    with run_nsqd("--trace-messages=1", program=PATIENT) as nsqd:
        create(nsqd, "orders", "billing")
        nsqd.restart()
        publish(nsqd, "orders", [b"one"])
        assert bodies_in(nsqd, "orders", "billing", 1) == [b"one"]
    assert [span.name for span in collector.spans()] == ["publish orders", "deliver orders"]
    found = collector.resource()
    assert (found["service.name"], found["deployment.environment"]) == ("nsqd", "test")


def test_a_stop_sends_what_waits(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-nsqd")
    with run_nsqd("--trace-messages=10", program=PATIENT) as nsqd:
        publish(nsqd, "orders", [b"x"] * 100)
        assert not collector.spans()
        assert (
            f"INFO: TRACES: one message in 10 to http://{collector.address}/v1/traces" in nsqd.log()
        )
        assert nsqd.stop() == 0
        assert len(collector.spans()) == 10
        assert collector.resource()["service.name"] == "orders-nsqd"


def test_a_collector_that_is_gone_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)  # connections are made and never answered
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}"
        )
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
        with run_nsqd("--trace-messages=1") as nsqd:
            publish(nsqd, "orders", [b"x"] * 10_000)
            assert nsqd.stop() == 0  # earlier than the half minute of the SDK's own time-outs
            log = nsqd.log()
            assert "ERROR: TRACES: Unable to parse value for OTEL_BSP_MAX_QUEUE_SIZE" in log
            assert "Traceback" not in log


def test_without_the_extra_nothing_is_touched(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from penstock.cli.nsqd import main; main()"
    )
    words = ["--trace-messages=1", f"--data-path={tmp_path}", "--tcp-address=127.0.0.1:0"]
    refused = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    said = refused.stderr.splitlines()[-1]
    assert said.endswith("--trace-messages needs OpenTelemetry: pip install 'penstock[otel]'")
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_cannot_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")  # less than a batch
    with (
        pytest.raises(DaemonError, match="--trace-messages: a wrong OTEL_ variable - ") as error,
        run_nsqd("--trace-messages=1"),
    ):
        pass
    assert "Traceback" not in str(error.value)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="--trace-messages must not be negative"):
        NsqdOptions(trace_messages=-1).check()


def test_off_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, penstock.nsq.nsqd.daemon;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout == b"[]\n"
