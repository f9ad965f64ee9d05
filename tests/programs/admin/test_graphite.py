from __future__ import annotations

from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.net.http.server.api import plain_response
from penstock.net.http.server.service import Response
from tests.unit.admin.conftest import FakeDaemon, Running, StartAdmin, StartFake

RATE = "/api/graphite?metric=rate&target=sumSeries(a.b%20c)"
BROKEN = (500, '{"message":"INTERNAL_ERROR"}')


@pytest.fixture
async def graphite(fake: StartFake) -> FakeDaemon:
    return await fake()


@pytest.fixture
async def running(graphite: FakeDaemon, admin: StartAdmin) -> Running:
    return await admin(
        nsqd_http_addresses=("127.0.0.1:9",),
        graphite_url=f"http://{graphite.address}",
        proxy_graphite=True,
        statsd_interval=10 * SECOND,
        base_path="/x",
    )


@pytest.mark.parametrize(
    ("answer", "rate"),
    [
        ([{"target": "x", "datapoints": [[1234.5, 1700000000]]}], "123.45"),
        ([{"target": "x", "datapoints": [[0, 1]]}], "0.00"),
        ([{"target": "x", "datapoints": [[-5, 1]]}], "N/A"),
        ([{"target": "x", "datapoints": [[None, 1]]}], "N/A"),
        ([{"target": "x", "datapoints": []}], "N/A"),
        ([{"target": "x"}], "N/A"),
        ([], "N/A"),
    ],
)
async def test_the_rate(running: Running, graphite: FakeDaemon, answer: Any, rate: str) -> None:
    graphite.answers["/render"] = answer
    assert await running.ask("GET", "/x" + RATE) == (200, f'{{"rate":"{rate}"}}')
    query = "format=json&from=-20sec&target=sumSeries%28a.b+c%29&until=-10sec"
    assert graphite.asked == [f"GET /render?{query}"]


async def test_what_is_no_rate(running: Running, graphite: FakeDaemon, admin: StartAdmin) -> None:
    for answer in (plain_response("oops"), plain_response("err", 500), {"target": "x"}):
        graphite.answers["/render"] = answer
        assert await running.ask("GET", "/x" + RATE) == BROKEN
    without = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    assert await without.ask("GET", RATE) == BROKEN
    assert (await without.ask("GET", "/render"))[0] == 404


async def test_pictures(running: Running, graphite: FakeDaemon) -> None:
    graphite.answers["/render"] = Response(200, b"png", "image/png")
    assert await running.ask("GET", "/x/render?target=a&x=1", Cookie="secret") == (200, "png")
    assert graphite.asked == ["GET /render?target=a&x=1"]
    await graphite.listener.close()
    graphite.server.close_connections()
    assert (await running.ask("GET", "/x/render?target=a"))[0] == 502
