"""/api/damage over nodes of both kinds."""

from __future__ import annotations

from tests.unit.admin.conftest import StartAdmin, Two

DAMAGED = {"topic_name": "t", "lost_count": 4, "damage": ["cursors.journal: damaged"]}


async def test_damage_over_the_nodes(two: Two, admin: StartAdmin) -> None:
    """A Go nsqd, which answers 404, counts as a node without damage."""
    two.nsqds[0].answers["/damage"] = {"topics": [DAMAGED, {"topic_name": "u", "lost_count": 1}]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    assert await running.get("/api/damage") == {
        "damage": [{"node": two.nsqds[0].address, "topic": "t", "lost": 4,
                    "damage": ["cursors.journal: damaged"]}],
        "message": "",
    }  # fmt: skip
    await running.get("/api/damage?topic=t")
    assert two.nsqds[0].asked[-1] == "GET /damage?topic=t"


async def test_a_node_that_fails_is_a_warning(two: Two, admin: StartAdmin) -> None:
    two.nsqds[0].answers["/damage"] = {"topics": 1}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = await running.get("/api/damage")
    assert found["damage"] == []
    assert found["message"].startswith("WARNING: ")
