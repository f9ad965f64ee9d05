"""Traces of a real nsqd, as a collector gets them over OTLP."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest
from opentelemetry.propagate import extract
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import get_current_span

from penstock.core.errors import ConfigError
from penstock.nsq.nsqd.options import NsqdOptions
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


class Client:
    """A raw connection that consumes the channel billing of orders."""

    def __init__(self, connection: socket.socket, msg_timeout: int) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        settings = b'{"msg_timeout": %d}' % msg_timeout
        connection.sendall(b"  V2IDENTIFY\n" + struct.pack(">i", len(settings)) + settings)
        self.send(b"SUB orders billing")

    def send(self, *commands: bytes) -> None:
        self._connection.sendall(b"".join(b"%b\n" % each for each in commands))

    def message(self) -> tuple[int, bytes]:
        """(attempts, id) of the next message."""
        while True:
            size, kind = struct.unpack(">ii", self._stream.read(8))
            data = self._stream.read(size - 4)
            assert kind != 1, data
            if kind == 2:
                _, attempts, message_id = struct.unpack(">qH16s", data[:26])
                return attempts, message_id

    def close(self) -> None:
        self._stream.close()


@contextmanager
def consumer(nsqd: Daemon, msg_timeout: int = 60_000) -> Iterator[Client]:
    """A client with this time-out in milliseconds; 0: nsqd's."""
    with (
        socket.create_connection(("127.0.0.1", nsqd.tcp_port)) as connection,
        closing(Client(connection, msg_timeout)) as client,
    ):
        yield client


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_message_from_its_publish_to_its_finish(collector: Collector) -> None:
    with run_nsqd("--trace-messages=1", "--msg-timeout=100ms") as nsqd:
        post(nsqd, "/pub?topic=orders", b"one")
        with consumer(nsqd) as stays:
            stays.send(b"RDY 1")
            attempts, message_id = stays.message()
            assert attempts == 1
            stays.send(b"RDY 0", b"REQ %b 0" % message_id)
            with consumer(nsqd, msg_timeout=0) as leaves:
                leaves.send(b"RDY 1")
                assert leaves.message() == (2, message_id)
            stays.send(b"RDY 1")
            last, _ = stays.message()  # the third, unless the other was slow to leave
            stays.send(b"FIN %b" % message_id)
            publish, *deliveries = collector.wait(1 + last)
        assert (publish.name, publish.parent_span_id) == ("publish orders", b"")
        assert attributes(publish) == {
            "messaging.system": "nsq",
            "messaging.operation.name": "publish",
            "messaging.destination.name": "orders",
            "messaging.message.id": message_id.decode(),
        }
        timed_out = ["timed out"] * (last - 2)
        outcomes = [attributes(span)["nsq.message.outcome"] for span in deliveries]
        assert outcomes == ["requeued", *timed_out, "finished"]
        assert [span.status.message for span in deliveries] == ["", *timed_out, ""]
        for number, span in enumerate(deliveries, 1):
            assert (span.name, span.parent_span_id) == ("deliver orders", publish.span_id)
            assert attributes(span)["nsq.message.attempts"] == number
            assert attributes(span)["messaging.consumer.group.name"] == "billing"
            assert span.end_time_unix_nano >= span.start_time_unix_nano
            # A consumer's own span, made as OpenTelemetry teaches, is a child of the delivery.
            header = traceparent("orders", "billing", message_id, number)
            seen = get_current_span(extract({"traceparent": header})).get_span_context()
            assert seen.trace_id.to_bytes(16) == span.trace_id
            assert seen.span_id.to_bytes(8) == span.span_id
            assert seen.trace_flags.sampled


def test_channels_that_are_there_already_are_traced(collector: Collector) -> None:
    with run_nsqd("--trace-messages=1") as nsqd:
        post(nsqd, "/topic/create?topic=orders")
        post(nsqd, "/channel/create?topic=orders&channel=billing")
        nsqd.restart()
        post(nsqd, "/pub?topic=orders", b"one")
        with consumer(nsqd) as client:
            client.send(b"RDY 1")
            client.send(b"FIN %b" % client.message()[1])
            assert [span.name for span in collector.wait(2)] == ["publish orders", "deliver orders"]
    found = collector.resources[-1]
    assert (found["service.name"], found["deployment.environment"]) == ("nsqd", "test")


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
