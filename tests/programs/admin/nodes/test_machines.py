"""The machines under the nodes, ours and Go's."""

from __future__ import annotations

from pathlib import Path

from penstock import __version__
from penstock.nsq.nsqd.options import NsqdOptions
from tests import nsqds
from tests.unit.admin.conftest import StartAdmin, Two


async def test_a_real_node(tmp_path: Path, admin: StartAdmin) -> None:
    options = NsqdOptions(data_path=str(tmp_path), tcp_address="127.0.0.1:0",
                          http_address="127.0.0.1:0", broadcast_address="127.0.0.1")  # fmt: skip
    nsqd = await nsqds.start(options)
    try:
        running = await admin(nsqd_http_addresses=(f"127.0.0.1:{nsqd.ports.http}",))
        found = await running.get("/api/machines")
    finally:
        await nsqds.stop(nsqd)
    (machine,) = found["machines"]
    assert found["message"] == ""
    assert (machine["penstock_version"], machine["health"]) == (__version__, "OK")
    assert machine["ports"] == {"tcp": nsqd.ports.tcp, "http": nsqd.ports.http}
    assert machine["connections"] == {"nsq": 0}
    assert machine["heap"] is None
    assert min(machine["resident"], machine["cpu_seconds"], machine["cpus"]) > 0
    assert machine["disk"]["total"] >= machine["disk"]["free"] > 0
    assert machine["start_time"] > 0


async def test_of_gos_there_is_what_it_tells(two: Two, admin: StartAdmin) -> None:
    go, _ = two.nsqds
    go.answers["/info"] = {"version": "1.3.0", "start_time": 7, "tcp_port": 1, "http_port": 2}
    go.answers["/stats"] = {"health": "OK", "memory": {"heap_in_use_bytes": 9}, "topics": None}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    (machine,) = (await running.get(f"/api/machines?node={go.address}"))["machines"]
    told = {"node": go.address, "health": "OK", "start_time": 7, "heap": 9,
            "ports": {"tcp": 1, "http": 2}}  # fmt: skip
    assert {name: value for name, value in machine.items() if value is not None} == told
    assert go.asked == ["GET /node", "GET /info",
                        "GET /stats?format=json&include_clients=false&topic=-"]  # fmt: skip


async def test_a_node_that_does_not_answer_is_a_warning(two: Two, admin: StartAdmin) -> None:
    ours, other = two.nsqds
    ours.answers["/node"] = {"penstock_version": "9", "health": "NOK - full"}
    other.answers.clear()
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = await running.get("/api/machines")
    assert [each["node"] for each in found["machines"]] == [ours.address]
    assert found["message"].startswith("WARNING: ")
    assert (await running.get("/api/machines?node=none:1"))["machines"] == []
    ours.answers.clear()
    assert (await running.ask("GET", "/api/machines"))[0] == 502
