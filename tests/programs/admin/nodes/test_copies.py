"""Nodes with second copies, as nsqadmin finds them."""

from __future__ import annotations

from typing import Any

from tests.unit.admin.conftest import StartAdmin, StartFake, Two


def by_node(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["node"]: each for each in found["copies"]}


async def test_nodes_without_copies_are_not_there(two: Two, admin: StartAdmin) -> None:
    two.nsqds[1].answers["/replication"] = {"role": "primary", "epoch": 0, "followers": []}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    assert await running.get("/api/copies") == {"copies": [], "message": ""}


async def test_a_primary_names_its_standbys(two: Two, fake: StartFake, admin: StartAdmin) -> None:
    primary = two.nsqds[0]
    standby, fenced = await fake(), await fake()
    follower = {"address": standby.address, "lag_messages": 4, "lag_bytes": 90,
                "asked_seconds_ago": 0.5}  # fmt: skip
    primary.answers["/replication"] = {
        "role": "primary", "epoch": 2, "followers": [follower], "before": fenced.address,
        "replicas_acked": 1, "replicas_in_force": 0, "replicas_missing": "go-on",
    }  # fmt: skip
    standby.answers["/replication"] = {
        "role": "follower", "epoch": 2, "primary": primary.address, "error": None,
        "lag_messages": 5, "lag_bytes": 100, "lag_seconds": 45.0,
    }  # fmt: skip
    fenced.answers["/replication"] = {
        "role": "fenced", "epoch": 1, "primary": primary.address, "only_here": {"orders": 3},
    }  # fmt: skip
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = by_node(await running.get("/api/copies"))
    assert next(iter(found)) == primary.address
    assert {name: [each["kind"] for each in row["verdicts"]] for name, row in found.items()} == {
        primary.address: ["without_copies"],
        standby.address: ["copy_behind"],
        fenced.address: ["fenced"],
    }
    assert found[primary.address]["followers"] == [standby.address]
    assert found[standby.address]["primary"] == primary.address
    assert found[standby.address]["lag_bytes"] == 100
    assert found[fenced.address]["only_here"] == {"orders": 3}
    named = await running.get(f"/api/copies?node={standby.address}")
    assert set(by_node(named)) == {primary.address, standby.address}


async def test_a_copy_that_is_gone_is_missed(two: Two, fake: StartFake, admin: StartAdmin) -> None:
    primary, standby = two.nsqds[0], await fake()
    told = {
        "role": "primary",
        "epoch": 1,
        "followers": [
            {"address": standby.address, "lag_messages": 0, "lag_bytes": 0, "asked_seconds_ago": 30}
        ],
    }
    primary.answers["/replication"] = told
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    row = by_node(await running.get("/api/copies"))[standby.address]
    assert (row["answers"], row["primary"]) == (False, primary.address)
    assert row["verdicts"] == [{"kind": "copy_gone", "level": "bad"}]
    primary.answers["/replication"] = told | {"followers": []}
    row = by_node(await running.get("/api/copies"))[standby.address]
    assert (row["role"], row["verdicts"]) == ("", [{"kind": "copy_gone", "level": "bad"}])
