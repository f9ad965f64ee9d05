"""What /ping, /ready and the page of metrics tell of a process and its pauses."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.metrics import process
from penstock.core.metrics.declared import Kind, Metric
from penstock.core.metrics.exposition import Samples
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.http.server.message import Request
from penstock.net.vitals.vitals import _KEPT, GcPauses, Vitals, of_process
from penstock.testing.clock import FakeClock
from tests.http_heads import parse_head
from tests.metrics_pages import parse


def test_a_real_collection_is_timed() -> None:
    pauses = GcPauses(SYSTEM_CLOCK)
    assert pauses.percentile(100) == 0
    pauses.start()
    try:
        gc.collect()
    finally:
        pauses.stop()
    counted = pauses.count
    assert counted >= 1
    assert 0 < pauses.percentile(100) <= pauses.total_ns
    gc.collect()
    assert pauses.count == counted, "after stop nothing is counted"
    pauses.stop()


def test_percentiles_of_the_last_pauses() -> None:
    clock = FakeClock()
    pauses = GcPauses(clock)

    def pause(ns: int) -> None:
        pauses._note("start", {})
        clock.advance(ns)
        pauses._note("stop", {})

    pauses._note("stop", {})  # started before anybody looked
    for ns in range(1, 101):
        pause(ns)
    assert [pauses.percentile(p) for p in (100, 99, 95)] == [100, 100, 96]
    assert (pauses.count, pauses.total_ns) == (100, 5050)
    for _ in range(_KEPT):
        pause(7)
    assert pauses.percentile(100) == 7


DEPTH = Metric("depth", Kind.GAUGE, "Depth.", "", ())


async def two() -> AsyncIterator[Samples]:
    yield Samples.single(DEPTH, 2)


def request() -> Request:
    head = parse_head(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return Request(head, "", b"", lambda: "127.0.0.1:5")


def test_ready_has_a_line_for_each_thing_that_is_missing() -> None:
    lines = ["NOK - no port", "NOK - no peer"]
    vitals = Vitals("nsqd", FakeClock())
    vitals.checks.append(lambda: lines)
    answer = vitals.ready(request())
    assert (answer.status, answer.body) == (503, b"NOK - no port\nNOK - no peer")
    lines.clear()
    assert vitals.ready(request()).status == 200


def test_ping_says_what_an_operator_has_to_see_to() -> None:
    health = "OK"
    vitals = Vitals("nsqd", FakeClock(), health=lambda: health)
    assert vitals.ping(request()).status == 200
    health = "NOK - damaged"
    answer = vitals.ping(request())
    assert (answer.status, answer.body) == (500, b"NOK - damaged")
    assert vitals.ready(request()).status == 200


async def test_a_page_is_the_sources_and_the_process() -> None:
    vitals = Vitals("nsqd", FakeClock())
    vitals.sources.append(two)
    answer = await vitals.metrics(request())
    assert isinstance(answer.body, list)
    page = parse(b"".join(answer.body).decode())
    assert page["depth"].value() == 2
    assert page["penstock_ready"].value() == 1
    vitals.checks.append(lambda: ["NOK"])
    answer = await vitals.metrics(request())
    assert isinstance(answer.body, list)
    assert parse(b"".join(answer.body).decode())["penstock_ready"].value() == 0


def test_collections_are_timed_between_start_and_close() -> None:
    vitals = Vitals("nsqd", FakeClock())
    vitals.start()
    gc.collect()
    vitals.close()
    gc.collect()
    assert vitals.gc_pauses.count == 1


def test_the_figures_of_a_process() -> None:
    clock = FakeClock()
    pauses = GcPauses(clock)
    pauses._note("start", {})
    clock.advance(20 * MILLISECOND)
    pauses._note("stop", {})
    found = parse("".join(samples.text() for samples in of_process(1_700_000_000 * SECOND, pauses)))
    assert found[process.START_TIME.name].value() == 1_700_000_000
    assert found[process.CPU.name].value() > 0
    assert 0 < found[process.OPEN_FILES.name].value() <= found[process.OPEN_FILES_MAX.name].value()
    assert found[process.GC_COLLECTIONS.name].samples.keys() == {
        ("", frozenset({("generation", str(each))})) for each in range(3)
    }
    assert found[process.GC_PAUSES.name].value("_count") == 1
    assert found[process.GC_PAUSES.name].value(quantile="1") == 0.02
