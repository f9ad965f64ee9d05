from __future__ import annotations

from typing import Any

from penstock.net.http.server.api import plain_response
from tests.unit.admin.conftest import StartAdmin, Two


def status(**more: Any) -> dict[str, Any]:
    return {"id": "q1", "name": "counts", "state": "running", "sql": "select 1", "age": 1.5,
            "rows_read": 10, "batch": 0, "read_per_s": 2.5, **more}  # fmt: skip


async def test_pipelines_over_the_nodes(two: Two, admin: StartAdmin) -> None:
    del two.nsqds[0].answers["/stats"]
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status()]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = await running.get("/api/pipelines")
    (pipeline,) = found["pipelines"]
    assert found["message"] == ""  # a node without the page, as Go's, has no pipelines
    assert (pipeline["name"], pipeline["rows_read"], pipeline["trend"]) == ("counts", 10, [])
    assert pipeline["nodes"] == [two.nsqds[1].address]
    assert "sql" not in pipeline


async def test_one_with_its_past(two: Two, admin: StartAdmin) -> None:
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status(), status(id="a b/#")]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), history_interval=10**12)
    assert running.admin.poller is not None
    await running.admin.poller.refresh()
    found = await running.get("/api/pipelines/q1")
    assert (found["sql"], found["history"]["read_per_s"][-1], found["message"]) == (
        "select 1", 2.5, "",
    )  # fmt: skip
    assert (await running.get("/api/pipelines"))["pipelines"][1]["trend"][-1] == 2.5
    assert await running.ask("GET", "/api/pipelines/none") == (
        404, '{"message":"PIPELINE_NOT_FOUND"}'
    )  # fmt: skip


async def test_without_a_history(two: Two, admin: StartAdmin) -> None:
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status()]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), history_interval=0)
    assert (await running.get("/api/pipelines/q1"))["history"] is None
    assert (await running.get("/api/pipelines"))["pipelines"][0]["trend"] == []


async def test_a_node_that_answers_nonsense_is_a_warning(two: Two, admin: StartAdmin) -> None:
    two.nsqds[0].answers["/pipelines"] = plain_response("oops")
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status()]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = await running.get("/api/pipelines")
    assert len(found["pipelines"]) == 1
    assert found["message"].startswith("WARNING: ")
