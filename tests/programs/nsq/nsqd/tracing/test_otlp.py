"""The exporter's words about itself; what it sends is in test_tracing.py."""

from __future__ import annotations

import pytest

from penstock.nsq.nsqd.tracing.otlp import Otlp

TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
ALL = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "http://localhost:4318/v1/traces"),
        ({ALL: "https://collector:4318/"}, "https://collector:4318/v1/traces"),
        ({ALL: "http://a:1", TRACES: "http://b:2/traces"}, "http://b:2/traces"),
        ({ALL: "http://me:secret@a:1"}, "http://me:***@a:1/v1/traces"),
    ],
)
def test_the_address_that_is_logged(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], address: str
) -> None:
    for name in (ALL, TRACES):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    otlp = Otlp("node:4150")
    assert otlp.address == address
    otlp.close()
