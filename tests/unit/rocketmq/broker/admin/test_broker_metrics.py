from __future__ import annotations

from penstock.core.metrics import mqbroker as metrics
from penstock.rocketmq.broker.services import Services
from tests.metrics_pages import parse


async def test_what_the_broker_counts(services: Services) -> None:
    totals = services.stats.totals
    totals.put_messages, totals.put_bytes, totals.put_failures = 5, 60, 1
    totals.got_messages, totals.found, totals.missed = 4, 3, 2
    found = services.metrics((1, 2))
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page.keys() == {metric.name for metric in metrics.LIST.metrics}
    for metric, value in (
        (metrics.PUT_MESSAGES, 5),
        (metrics.PUT_BYTES, 60),
        (metrics.PUT_FAILURES, 1),
        (metrics.GOT_MESSAGES, 4),
        (metrics.CONNECTIONS, 2),
        (metrics.DELAYED, 0),
        (metrics.NAME_SERVERS, 0),
    ):
        assert page[metric.name].value() == value
    assert page[metrics.PULLS.name].value(found="true") == 3
    assert page[metrics.PULLS.name].value(found="false") == 2
