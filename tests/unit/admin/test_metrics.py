from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from penstock.admin.history.poller import Looks, Poller
from penstock.admin.metrics import AdminVitals
from penstock.admin.notifications import Notifier
from penstock.core.metrics import nsqadmin as metrics
from penstock.core.units import SECOND
from penstock.testing.clock import FakeClock
from tests.metrics_pages import Page, parse


async def page_of(vitals: AdminVitals) -> Page:
    return parse("".join([samples.text() async for samples in vitals.source()]))


async def test_looks_at_the_nodes() -> None:
    clock = FakeClock()
    vitals = AdminVitals(Notifier("", 1, 5, clock), clock)
    assert not vitals.missing(), "without a history there is nothing to wait for"
    assert metrics.LOOKS.name not in await page_of(vitals)
    poller = SimpleNamespace(looks=Looks())
    vitals.poller = cast(Poller, poller)
    assert vitals.missing() == ["NOK - the first look at the nodes has not ended yet"]
    assert metrics.NODES.name not in await page_of(vitals)
    poller.looks = Looks(1, nodes=3, failures=2, took_ns=SECOND, ended_ns=clock.monotonic_ns())
    clock.advance(5 * SECOND)
    assert not vitals.missing()
    page = await page_of(vitals)
    assert page[metrics.LOOKS.name].value() == 1
    assert page[metrics.NODES.name].value() == 3
    assert page[metrics.FAILURES.name].value() == 2
    assert page[metrics.LOOK_SECONDS.name].value() == 1
    assert page[metrics.LOOK_AGE.name].value() == 5
