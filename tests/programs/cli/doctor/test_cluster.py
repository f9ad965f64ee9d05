"""Each fault of a cluster of real daemons is found, and a healthy one has none."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from penstock.core.units import MINUTE
from penstock.net.http.client.answer import Answer
from penstock.net.http.client.once import request
from penstock.storage.files.disk_space import DiskSpace
from penstock.testing.daemons import Daemon, run_nsqlookupd
from tests.programs.cli.doctor.cluster import Shifted, address, codes, examined
from tests.programs.cluster.conftest import StartFake, fake
from tests.programs.nsq.nsqd.conftest import Running, Start, start
from tests.unit.cli.doctor.patients import healthy, segments
from tools.harness.ports import unused_address

__all__ = ["fake", "start"]


@pytest.fixture
def lookupd() -> Iterator[Daemon]:
    with run_nsqlookupd() as daemon:
        yield daemon


async def registered(node: Running) -> None:
    await node.until(lambda: all(each.connected for each in node.nsqd.lookup.peers.values()))


async def test_a_healthy_cluster_at_work_has_no_finding(
    start: Start, tmp_path: Path, lookupd: Daemon
) -> None:
    nodes = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        node = await start(data_path=tmp_path / name, lookupd_tcp_addresses=(lookupd.tcp,))
        await node.publish("t", *[b"%d" % number for number in range(20)])
        await node.consumer("t", ready=5)
        await registered(node)
        nodes.append(node)
    report = await examined(nodes[0], lookupds=(lookupd.http,))
    assert codes(report) == []
    assert report.checked == [f"nsqlookupd {lookupd.http}"] + [
        f"nsqd {address(node)}: 1 topic" for node in nodes
    ]


async def test_an_nsqlookupd_that_does_not_answer(start: Start) -> None:
    gone = unused_address()
    report = await examined(await start(), lookupds=(gone,))
    assert codes(report) == ["lookupd-unreachable"]
    assert report.findings[0].what == f"{gone} cannot be reached: connection refused"


async def test_a_node_that_does_not_answer(start: Start) -> None:
    assert codes(await examined(await start(), unused_address())) == ["unreachable"]


async def test_a_broadcast_address_where_nobody_answers(start: Start, lookupd: Daemon) -> None:
    node = await start(broadcast_address="127.99.0.1", lookupd_tcp_addresses=(lookupd.tcp,))
    report = await examined(node)
    assert codes(report) == ["unreachable", "unreachable"]  # its TCP port and that of HTTP
    assert f"told 127.99.0.1:{node.nsqd.ports.tcp} (connection" in report.findings[0].what
    await registered(node)
    report = await examined(lookupds=(lookupd.http,))
    assert codes(report) == ["unreachable"]
    assert f"as {lookupd.http} names it" in report.findings[0].what


async def test_a_broadcast_port_where_nobody_answers(start: Start, lookupd: Daemon) -> None:
    port = int(unused_address().rpartition(":")[2])
    node = await start(broadcast_tcp_port=port, lookupd_tcp_addresses=(lookupd.tcp,))
    await registered(node)
    report = await examined(lookupds=(lookupd.http,))
    assert codes(report) == ["unreachable"]
    assert f"told 127.0.0.1:{port} (connection refused)" in report.findings[0].what


async def test_a_node_that_an_nsqlookupd_does_not_know(start: Start, lookupd: Daemon) -> None:
    assert codes(await examined(await start(), lookupds=(lookupd.http,))) == ["not-registered"]


async def test_two_nodes_with_one_address(start: Start, tmp_path: Path, lookupd: Daemon) -> None:
    first = await start(lookupd_tcp_addresses=(lookupd.tcp,))
    (tmp_path / "b").mkdir()
    second = await start(
        data_path=tmp_path / "b", lookupd_tcp_addresses=(lookupd.tcp,),
        broadcast_http_port=first.nsqd.ports.http, broadcast_tcp_port=first.nsqd.ports.tcp,
    )  # fmt: skip
    await registered(first)
    await registered(second)
    report = await examined(lookupds=(lookupd.http,))
    assert codes(report) == ["same-identity"]
    assert f"2 nodes say that they are {address(first)}" in report.findings[0].what


async def test_a_data_path_that_is_a_copy_of_another(start: Start, tmp_path: Path) -> None:
    healthy(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    nodes = [await start(data_path=tmp_path / name) for name in ("a", "b")]
    for node in nodes:
        await node.post("/topic/empty?topic=orders")
        await node.post("/log/group/delete?topic=orders&group=spark")
    report = await examined(*nodes)
    assert codes(report) == ["same-identity"]
    assert "their topic orders is the same log" in report.findings[0].what


async def test_a_tombstoned_topic(start: Start, lookupd: Daemon) -> None:
    node = await start(lookupd_tcp_addresses=(lookupd.tcp,))
    await node.post("/topic/create?topic=t")
    await registered(node)
    tombstone = f"http://{lookupd.http}/topic/tombstone?topic=t&node={address(node)}"
    await node.until(lambda: _is_ok(request("POST", tombstone, 10.0)))
    report = await examined(lookupds=(lookupd.http,))
    assert codes(report) == ["tombstone"]
    assert f"the topic t is tombstoned at {address(node)}" in report.findings[0].what


async def _is_ok(asked: Awaitable[Answer]) -> bool:
    return (await asked).status == 200


async def test_a_clock_that_is_set_wrong(start: Start) -> None:
    report = await examined(await start(clock=Shifted(-5 * MINUTE)))
    assert codes(report) == ["clock"]
    assert report.findings[0].what.endswith(" behind this machine's")


async def test_time_outs_and_limits_that_differ(start: Start, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    nodes = [
        await start(),
        await start(data_path=tmp_path / "b", msg_timeout=30 * MINUTE, max_msg_size=1 << 21),
    ]
    report = await examined(*nodes)
    assert codes(report) == ["time-outs", "options", "time-outs"]
    own, size, between = report.findings
    assert own.what == "--msg-timeout 30m0s is more than --max-msg-timeout 15m0s"
    assert "--max-msg-size differs: 1048576 at" in size.what
    assert f"1m0s at {address(nodes[0])}; 30m0s at {address(nodes[1])}" in between.what


async def test_a_node_that_is_unhealthy(start: Start, tmp_path: Path) -> None:
    segments(healthy(tmp_path))[1].unlink()
    node = await start()
    await node.post("/log/group/delete?topic=orders&group=spark")
    await node.consumer("orders", ready=100)
    await node.until(lambda: _has_nothing_to_hand_out(node))
    report = await examined(node)
    assert codes(report) == ["unhealthy"]
    assert "topic orders is damaged" in report.findings[0].what


async def _has_nothing_to_hand_out(node: Running) -> bool:
    return (await node.channel("orders"))["depth"] == 0


async def test_a_disk_that_is_nearly_full(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await start()
    monkeypatch.setattr(DiskSpace, "of", lambda _: DiskSpace(100 << 20, 97 << 20, 3 << 20))
    report = await examined(node)
    assert codes(report) == ["disk-space"]
    assert report.findings[0].what.startswith("its file system is 97% full, 3 MiB are free")
    assert codes(await examined(node, used_max=98)) == []


async def test_versions_that_differ_and_nodes_of_go(start: Start, fake: StartFake) -> None:
    go = await fake()
    go.answers = {"/info": {**go.told(version="1.2.1"), "topics": None},
                  "/stats": {"topics": []}, "/ping": {}}  # fmt: skip
    report = await examined(await start(), go.address)
    assert "versions" in codes(report)
    assert f"1.2.1 (Penstock none) at {go.address}" in report.findings[-1].what
