from __future__ import annotations

from penstock.core.metrics import nsqlookupd as metrics
from penstock.core.units import SECOND
from penstock.nsq.nsqlookupd.metrics import LookupdMetrics
from penstock.nsq.nsqlookupd.protocol import PeerInfo
from penstock.nsq.nsqlookupd.registry import Producer, Registry
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse


async def test_a_silent_producer_is_told_apart() -> None:
    clock = FakeClock()
    registry = Registry(clock, 300 * SECOND, 45 * SECOND)
    silent = Producer("1", PeerInfo("h", "h", 4150, 4151, "1.3.0"))
    registry.connect(silent)
    registry.register(silent, "t", "c")
    clock.advance(301 * SECOND)
    registry.connect(Producer("2", PeerInfo("h", "h", 4152, 4153, "1.3.0")))
    found = LookupdMetrics(registry, ())
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page[metrics.PRODUCERS.name].value() == 2
    assert page[metrics.SILENT_PRODUCERS.name].value() == 1
    assert page[metrics.EMPTY_TOPICS.name].value() == 1
    registry.disconnect(silent)
    assert registry.figures().producers == registry.gone_count == 1
