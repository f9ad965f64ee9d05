from __future__ import annotations

from penstock.net.http.server.api import error_response
from penstock.net.http.server.service import Response

from .conftest import Site, message

NO_CHANNEL = error_response(404, "CHANNEL_NOT_FOUND")


def row(topic: str, count: int, **more: object) -> dict[str, object]:
    return {"topic": topic, "letters": count, "is_rocketmq": False, "channel": None, **more}


async def test_topics_over_all_nodes_and_none_of_gos(site: Site) -> None:
    rocketmq = row("%DLQ%g", 1, is_rocketmq=True)
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3), rocketmq]}
    found = await site.get("/api/deadletters")
    assert found[1]["message"] == ""
    assert [each["topic"] for each in found[1]["topics"]] == ["%DLQ%g", "t.dead"]
    site.theirs.answers["/deadletters/topics"] = {"topics": [row("t.dead", 4)]}
    assert (await site.get("/api/deadletters"))[1]["topics"][1] == {
        "topic": "t.dead", "letters": 7, "is_rocketmq": False,
        "nodes": [{"node": site.node, "letters": 3}, {"node": site.go, "letters": 4}],
    }  # fmt: skip


async def test_a_node_that_fails_is_a_warning_and_all_of_them_an_error(site: Site) -> None:
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3)]}
    site.theirs.answers["/deadletters/topics"] = Response(500)
    status, found = await site.get("/api/deadletters")
    assert (status, len(found["topics"])) == (200, 1)
    assert found["message"].startswith("WARNING: got response 500")
    # Whoever could not be asked may have it.
    assert (await site.get("/api/deadletters/u.dead/export"))[0] == 502
    site.ours.answers["/deadletters/topics"] = Response(500)
    assert (await site.get("/api/deadletters"))[0] == 502


async def test_a_page_of_a_node(site: Site) -> None:
    site.ours.answers["/channel/peek"] = {"messages": [message(3)], "next": 4}
    path = f"/api/deadletters/t.dead?node={site.node}&limit=1"
    assert await site.get(path) == (200, {"node": site.node, "topic": "t.dead", "next": 4,
                                          "messages": [message(3)], "message": ""})  # fmt: skip
    assert (await site.get(f"/api/deadletters/t.dead?node={site.go}"))[0] == 501
    assert (await site.get("/api/deadletters/t.dead?node=n:1"))[0] == 404
    assert (await site.get("/api/deadletters/t.dead"))[1] == {"message": "MISSING_ARG_NODE"}


async def test_a_page_from_a_time_on(site: Site) -> None:
    site.ours.answers |= {"/log/offset_at": {"offset": 7},
                          "/channel/peek": {"messages": [message(8)], "next": None}}  # fmt: skip
    path = f"/api/deadletters/t.dead?node={site.node}&from=time:5"
    assert (await site.get(path))[0] == 200
    assert site.asked()[-2:] == [
        "GET /log/offset_at?topic=t.dead&timestamp_ns=5000000",
        "GET /channel/peek?topic=t.dead&channel=penstock-dlq&from=7&limit=50",
    ]
