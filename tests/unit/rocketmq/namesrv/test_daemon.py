from __future__ import annotations

from penstock.core.metrics import mqnamesrv as metrics
from penstock.core.units import SECOND
from penstock.rocketmq.namesrv.daemon import PATIENCE_S, NamesrvVitals
from penstock.rocketmq.namesrv.routes import Routes
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse
from tests.unit.rocketmq.namesrv.test_routes import A, B, topics


def test_an_empty_cluster_makes_it_ready_after_a_while() -> None:
    clock = FakeClock()
    vitals = NamesrvVitals(Routes(clock), (), clock)
    assert vitals.missing() == ["NOK - no broker has registered within 45 s of the start yet"]
    clock.advance(PATIENCE_S * SECOND)
    assert not vitals.missing()


def test_a_broker_that_came_and_went_leaves_it_ready() -> None:
    clock = FakeClock()
    routes = Routes(clock)
    vitals = NamesrvVitals(routes, (), clock)
    routes.register(A, topics("T"), 1)
    routes.unregister(A.address)
    assert not vitals.missing()


async def test_brokers_gone_and_routes_asked_for() -> None:
    clock = FakeClock()
    routes = Routes(clock)
    routes.register(A, topics("T"), 1)
    routes.register(B, topics("U"), 2)
    routes.route("T")
    routes.route("unknown")
    routes.disconnected(1)
    clock.advance(121 * SECOND)
    routes.drop_expired()
    found = NamesrvVitals(routes, (), clock)
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page[metrics.REGISTRATIONS.name].value() == 2
    assert page[metrics.BROKERS.name].value() == 0
    for reason in ("connection", "silence"):
        assert page[metrics.BROKERS_GONE.name].value(reason=reason) == 1
    for found_one in ("true", "false"):
        assert page[metrics.ROUTES.name].value(found=found_one) == 1
