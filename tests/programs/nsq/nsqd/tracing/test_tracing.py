"""Traces of a real nsqd, as a collector gets them over OTLP."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO
from urllib.request import Request, urlopen

import pytest
from opentelemetry.propagate import extract
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import get_current_span

from penstock.core.errors import ConfigError
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.tracing.tracing import check_tracing
from penstock.nsq.trace_context import traceparent
from penstock.testing.daemons import Daemon, run_nsqd

SPANS_S_MAX = 20.0


class Collector:
    """An OTLP receiver; ``spans`` are those of all requests, ``resources`` their resources."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        collector = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(
                {each.key: each.value.string_value for each in group.resource.attributes}
            )
            for scope in group.scope_spans:
                self.spans += scope.spans

    def wait(self, count: int) -> list[Any]:
        """That many spans, in the order of their ends."""
        limit = time.monotonic() + SPANS_S_MAX
        while len(self.spans) < count:
            assert time.monotonic() < limit, f"{len(self.spans)} of {count} spans came"
            time.sleep(0.01)
        assert len(self.spans) == count
        return sorted(self.spans, key=lambda span: span.end_time_unix_nano)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    found = Collector()
    thread = Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def post(nsqd: Daemon, path: str, body: bytes = b"") -> None:
    with urlopen(Request(f"http://{nsqd.http}{path}", body, method="POST")):
        pass


def message(stream: BinaryIO) -> tuple[int, bytes]:
    """(attempts, id) of the next message."""
    while True:
        size, kind = struct.unpack(">ii", stream.read(8))
        data = stream.read(size - 4)
        if kind == 2:
            _, attempts, message_id = struct.unpack(">qH16s", data[:26])
            return attempts, message_id


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_message_from_its_publish_to_its_finish(collector: Collector) -> None:
    with run_nsqd("--trace-messages=1", "--msg-timeout=200ms") as nsqd:
        post(nsqd, "/pub?topic=orders", b"one")
        with (
            socket.create_connection(("127.0.0.1", nsqd.tcp_port)) as client,
            client.makefile("rb") as stream,
        ):
            client.sendall(b"  V2SUB orders billing\nRDY 1\n")
            attempts, message_id = message(stream)
            assert attempts == 1
            client.sendall(b"REQ %b 0\n" % message_id)
            assert message(stream) == (2, message_id)
            assert message(stream) == (3, message_id)  # 200 ms later
            client.sendall(b"FIN %b\n" % message_id)
            spans = collector.wait(4)
        publish, *deliveries = spans
        assert (publish.name, publish.parent_span_id) == ("publish orders", b"")
        assert attributes(publish) == {
            "messaging.system": "nsq",
            "messaging.operation.name": "publish",
            "messaging.destination.name": "orders",
            "messaging.message.id": message_id.decode(),
        }
        assert [attributes(span)["nsq.message.outcome"] for span in deliveries] == [
            "requeued", "timed out", "finished",
        ]  # fmt: skip
        assert [attributes(span)["nsq.message.attempts"] for span in deliveries] == [1, 2, 3]
        assert [span.status.message for span in deliveries] == ["", "timed out", ""]
        for number, span in enumerate(deliveries, 1):
            assert (span.name, span.parent_span_id) == ("deliver orders", publish.span_id)
            assert attributes(span)["messaging.consumer.group.name"] == "billing"
            assert span.end_time_unix_nano >= span.start_time_unix_nano
            # A consumer's own span, made as OpenTelemetry teaches, is a child of the delivery.
            header = traceparent("orders", "billing", message_id, number)
            seen = get_current_span(extract({"traceparent": header})).get_span_context()
            assert (seen.trace_id.to_bytes(16), seen.span_id.to_bytes(8)) == (
                span.trace_id, span.span_id,
            )  # fmt: skip
            assert seen.trace_flags.sampled
        assert nsqd.stop() == 0
        nsqd.start()  # channels that are there already are traced as well
        collector.spans.clear()
        post(nsqd, "/pub?topic=orders", b"two")
        with (
            socket.create_connection(("127.0.0.1", nsqd.tcp_port)) as client,
            client.makefile("rb") as stream,
        ):
            client.sendall(b"  V2SUB orders billing\nRDY 1\n")
            client.sendall(b"FIN %b\n" % message(stream)[1])
            assert [span.name for span in collector.wait(2)] == ["publish orders", "deliver orders"]
        assert collector.resources[-1].items() >= {
            "service.name": "nsqd", "deployment.environment": "test",
        }.items()  # fmt: skip


def test_a_stop_sends_what_waits(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-nsqd")
    with run_nsqd("--trace-messages=10") as nsqd:
        post(nsqd, "/mpub?topic=orders", b"x\n" * 100)
        assert not collector.spans
        assert f"INFO: TRACES: one message in 10 to {collector.url}/v1/traces" in nsqd.log()
        assert nsqd.stop() == 0
        assert len(collector.spans) == 10
        assert collector.resources[0]["service.name"] == "orders-nsqd"


def test_a_collector_that_is_gone_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)  # connections are made and never answered
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}"
        )
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
        with run_nsqd("--trace-messages=1") as nsqd:
            post(nsqd, "/mpub?topic=orders", b"x\n" * 10_000)
            began = time.monotonic()
            assert nsqd.stop() == 0
            assert time.monotonic() - began < 10
            log = nsqd.log()
            assert "ERROR: TRACES: Unable to parse value for OTEL_BSP_MAX_QUEUE_SIZE" in log
            assert "Traceback" not in log


def test_without_the_extra_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ConfigError, match=r"needs OpenTelemetry: pip install 'penstock\[otel\]'"):
        asyncio.run(open_node(NsqdOptions(trace_messages=1, data_path=str(tmp_path))))
    assert list(tmp_path.iterdir()) == []
    check_tracing(NsqdOptions())


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
