"""``penstock doctor`` at running clusters: a fault is found, and a healthy cluster has none."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.admin.rocketmq import verdicts
from penstock.cli.doctor import cluster, name_servers
from penstock.cli.doctor.report import Report
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.net.http.client.answer import Answer
from penstock.net.http.client.once import request
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.storage.files.disk_space import DiskSpace
from penstock.testing.daemons import (
    Daemon,
    run_mqbroker,
    run_mqnamesrv,
    run_nsqd,
    run_nsqlookupd,
    run_rocketmq,
)
from tests.copies import ask, publish, until, until_copied
from tests.programs.cli.doctor.cluster import Shifted, address, codes, examined
from tests.programs.cluster.conftest import FakeDaemon, StartFake, fake
from tests.programs.nsq.nsqd.conftest import Running, Start, start
from tests.unit.cli.doctor.patients import healthy, segments
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient
from tools.harness.rocketmq.shop import Shop, running_shop

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


async def test_an_nsqlookupd_or_a_node_that_does_not_answer(start: Start) -> None:
    gone, node = unused_address(), await start()
    report = await examined(node, lookupds=(gone,))
    assert codes(report) == ["lookupd-unreachable"]
    assert report.findings[0].what == f"{gone} cannot be reached: connection refused"
    assert codes(await examined(node, gone)) == ["unreachable"]


async def test_a_broadcast_address_where_nobody_answers(
    start: Start, tmp_path: Path, lookupd: Daemon
) -> None:
    node = await start(broadcast_address="127.99.0.1", lookupd_tcp_addresses=(lookupd.tcp,))
    report = await examined(node)
    assert codes(report) == ["unreachable", "unreachable"]  # its TCP port and that of HTTP
    assert f"told 127.99.0.1:{node.nsqd.ports.tcp} (connection" in report.findings[0].what
    await registered(node)
    report = await examined(lookupds=(lookupd.http,))
    assert codes(report) == ["unreachable"]
    assert f"as {lookupd.http} names it" in report.findings[0].what
    await node.stop()
    port = int(unused_address().rpartition(":")[2])
    (tmp_path / "b").mkdir()
    await registered(
        await start(
            data_path=tmp_path / "b",
            broadcast_tcp_port=port,
            lookupd_tcp_addresses=(lookupd.tcp,),
        )
    )
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


async def test_a_disk_that_is_nearly_full(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await start()
    monkeypatch.setattr(DiskSpace, "of", lambda _: DiskSpace(100 << 20, 97 << 20, 3 << 20))
    report = await examined(node)
    assert codes(report) == ["disk-space"]
    assert report.findings[0].what.startswith("its file system is 97% full, 3 MiB are free")
    assert codes(await examined(node, used_max=98)) == []


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


async def test_versions_that_differ_and_nodes_of_go(start: Start, fake: StartFake) -> None:
    go = await fake()
    go.answers = {"/info": {**go.told(version="1.2.1"), "topics": None},
                  "/stats": {"topics": []}, "/ping": {}}  # fmt: skip
    report = await examined(await start(), go.address)
    assert "versions" in codes(report)
    assert f"1.2.1 (Penstock none) at {go.address}" in report.findings[-1].what


async def test_a_node_by_two_addresses_is_one_and_a_look_leaves_no_error_in_its_log(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    node = await start()
    await node.publish("t", b"x")
    await node.consumer("t")
    report = await examined(node, f"localhost:{node.nsqd.ports.http}")
    assert (codes(report), len(report.checked)) == ([], 1)
    await node.stop()
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        (["channel/create?topic=t&channel=c", "channel/pause?topic=t&channel=c"], "paused",
         "channel c"),
        (["channel/create?topic=t&channel=c", "topic/pause?topic=t"], "paused", "topic t"),
        (["channel/create?topic=t&channel=c"], "unread", "1 message waits, and nobody reads it"),
        ([], "no-channel", "1 message waits, and there is no channel"),
        (["channel/create?topic=t&channel=c%23ephemeral",
          "channel/pause?topic=t&channel=c%23ephemeral"], "paused",
         "POST /channel/unpause?topic=t&channel=c%23ephemeral"),
    ],
)  # fmt: skip
async def test_messages_that_wait_for_nobody(
    start: Start, steps: list[str], code: str, said: str
) -> None:
    node = await start()
    for step in ("topic/create?topic=t", *steps):
        assert (await node.post(f"/{step}"))[0] == 200
    await node.publish("t", b"x")
    report = await examined(node)
    assert codes(report) == [code]
    (found,) = report.findings
    assert said in f"{found.where}: {found.what}: {found.remedy}"


async def test_a_group_that_nobody_reads(start: Start) -> None:
    clock = Shifted(0)
    node = await start(clock=clock)
    await node.publish("t", b"x")
    assert (await node.post("/log/commit?topic=t&group=spark"))[0] == 200
    assert codes(await examined(node)) == []
    clock.ahead_ns = 25 * HOUR
    report = await examined(node)
    assert codes(report) == ["unread", "clock"] or codes(report) == ["clock", "unread"]
    unread = next(each for each in report.findings if each.code == "unread")
    assert "1 message waits, and it has not moved for 25h0m" in unread.what


async def test_dead_letters(start: Start) -> None:
    node = await start()
    await node.publish("orders.dead", b"x")
    report = await examined(node)
    assert codes(report) == ["dead-letters"]
    assert report.findings[0].what == "1 dead letter"
    assert "penstock dlq show orders.dead" in report.findings[0].remedy


@pytest.fixture
def pair() -> Iterator[tuple[Daemon, Daemon]]:
    """A primary that goes on without its follower, and that."""
    with (
        run_nsqd("--replicas-acked=1", "--replicas-missing=go-on") as primary,
        run_nsqd(f"--follow={primary.http}") as follower,
    ):
        until(primary, replicas_in_force=1)
        until(follower, whole=True, error=None)
        yield primary, follower


async def settled(wanted: list[str], *addresses: str) -> Report:
    """The report that finds this: a copy may be behind for a moment, or a node late to answer."""
    end = SYSTEM_CLOCK.monotonic_ns() + 120 * SECOND
    while codes(report := await examined(*addresses)) != wanted:
        assert SYSTEM_CLOCK.monotonic_ns() < end, report.findings
    return report


async def test_the_life_of_a_pair(
    pair: tuple[Daemon, Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = pair
    monkeypatch.setattr(cluster, "TIMEOUT_S", 1.0)  # the one that is stopped does not answer
    await settled([], old.http, new.http)
    os.kill(new.pid, signal.SIGSTOP)
    until(old, replicas_in_force=0)
    report = await settled(["without-copies"], old.http)
    assert "are acknowledged without them" in report.findings[0].what
    os.kill(new.pid, signal.SIGCONT)
    until(old, replicas_in_force=1)
    publish(old, "t", "1")
    until_copied(old, new, "t")
    old.kill()
    until(new, error=f"{old.http} cannot be reached: connection refused")
    report = await settled(["no-primary"], new.http)
    [found] = report.findings
    assert f"its primary {old.http} does not answer; it was whole" in found.what
    assert f"penstock promote {new.http}; what" in found.remedy
    assert ask(new, "POST", "/replication/promote")[0] == 200
    until(new, role="primary")
    old.start()
    until(old, role="fenced")
    report = await settled(["no-channel", "fenced"], old.http, new.http)
    assert f"{new.http} is primary in epoch 2" in report.findings[-1].what
    old.flags.append(f"--follow={new.http}")
    old.restart()
    until(old, role="follower", whole=True)
    await settled(["no-channel"], old.http, new.http)


def says(node: FakeDaemon, **figures: Any) -> FakeDaemon:
    """A node that says this at /replication."""
    node.answers = {
        "/info": node.told(), "/stats": {"topics": []}, "/ping": {},
        "/replication": {"epoch": 1, "history": "h", **figures},
    }  # fmt: skip
    return node


async def test_roles_that_do_not_fit_together(fake: StartFake) -> None:
    a, b, c = [await fake() for _ in range(3)]

    async def found(*asked: FakeDaemon) -> list[tuple[str, str, str]]:
        report = await examined(*(each.address for each in asked))
        return [(each.code, each.what, each.remedy) for each in report.findings
                if each.code not in ("unhealthy", "unreachable")]  # fmt: skip

    says(a, role="primary", followers=[{"address": b.address}])
    following = {"role": "follower", "primary": a.address, "error": None}
    says(b, **following, lag_seconds=60.5, lag_messages=7000, was_whole=False)
    [(code, what, _)] = await found(b)
    assert (code, "7,000 messages" in what, "60.5 s ago" in what) == ("copy-behind", True, True)

    says(b, **following | {"error": "disk full"}, lag_seconds=1, put_aside={"t": 3, "u": 5})
    failed, aside = await found(b)
    assert (failed[0], failed[1]) == ("not-following", "disk full; it was whole 1 s ago")
    assert (aside[0], aside[1].endswith("5 of u, 3 of t")) == ("put-aside", True)

    says(b, **following, whole=True, lag_seconds=0)
    says(c, role="follower", primary=b.address, error="refuses: FOLLOWER", history="")
    [(code, what, remedy)] = await found(c)
    assert (code, remedy) == ("follows-follower", f"Start it with --follow={a.address}.")
    says(b, role="follower", primary=c.address, error="refuses: FOLLOWER")
    assert [each[2] for each in await found(b)] == [f"penstock promote {b.address}, or the other."]

    says(b, role="fenced", primary=a.address, fenced_epoch=2, only_here={"t": 4})
    [(code, what, _)] = await found(b)
    assert (code, what.endswith("only it has: 4 of t")) == ("fenced", True)
    [(code, what, remedy)] = await found(c)
    assert (code, remedy) == ("follows-fenced", f"Start it with --follow={a.address}.")

    says(b, role="primary", followers=[{"address": c.address}])
    says(c, role="primary", followers=[])
    [(code, what, remedy)] = await found(a, b)
    assert code == "two-primaries"
    assert all(f"{each.address} (epoch 1)" in what for each in (a, b, c)), "one is only named"
    assert "Two followers were promoted at once" in remedy
    says(c, role="primary", epoch=2, primary=b.address)
    [(code, what, remedy)] = await found(c)
    assert (code, f"{c.address} tells the one before it" in remedy) == ("two-primaries", True)

    says(a, role="primary", replicas_acked=2, replicas_in_force=0, replicas_missing="refuse")
    [(code, what, _)] = await found(a)
    assert (code, "publishes are refused" in what) == ("without-copies", True)


async def test_a_follower_that_is_not_whole_and_has_lost_its_primary(fake: StartFake) -> None:
    for messages, lost in ((8, "at least 8 messages"), (0, "messages, how many is not known")):
        b = says(await fake(), role="follower", primary="127.0.0.1:1", error="gone",
                 lag_messages=messages)  # fmt: skip
        [found] = [e for e in (await examined(b.address)).findings if e.code == "no-primary"]
        assert f"penstock promote {b.address} --force loses {lost}. A backup" in found.remedy


OWN = ["dead-letters", "unread"]
"""The faults that the shop has by itself: letters of `failing`, and `archive` without a member."""


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the machine is no fault, however full it is."""
    monkeypatch.setattr(verdicts, "DISK_WARN", 2.0)


async def examined_over(*addresses: str) -> Report:
    return await name_servers.examine_name_servers(addresses, (), SYSTEM_CLOCK)


def said(report: Report, code: str) -> str:
    (found,) = (each for each in report.findings if each.code == code)
    return f"{found.where}: {found.what}"


def test_a_healthy_cluster_has_no_finding(command: Commands) -> None:
    with run_rocketmq() as cluster:
        address = cluster.name_server.rocketmq
        ended = command("doctor", f"--namesrv-address={address}")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.splitlines() == [
            f"examined name server {address}",
            f"examined broker broker-a, {cluster.broker.rocketmq}: V4_9_8",
            "examined 0 groups of RocketMQ",
            "no fault found",
        ]


async def test_dead_letters_and_a_group_that_nobody_reads(shop: Shop) -> None:
    report = await examined_over(shop.name_server.rocketmq)
    assert sorted(codes(report)) == OWN
    assert said(report, "unread") == (
        "RocketMQ's group archive: 12 messages wait in trades, and it has no member"
    )
    assert said(report, "dead-letters") == "RocketMQ's group failing: 3 dead letters"


async def test_a_group_that_may_not_consume(shop: Shop) -> None:
    def let(consume: bool) -> None:
        body = fastjson.dumps({"groupName": "archive", "consumeEnable": consume})
        shop.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

    let(False)
    try:
        report = await examined_over(shop.name_server.rocketmq)
    finally:
        let(True)
    assert sorted(codes(report)) == ["dead-letters", "paused"]
    assert said(report, "paused").endswith("archive: 12 messages wait, and it may not consume")


async def test_a_disk_of_a_broker(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "DISK_WARN", 0.0)
    report = await examined_over(shop.name_server.rocketmq)
    assert sorted(codes(report)) == sorted([*OWN, "disk-space"])
    assert said(report, "disk-space").endswith("% of its disk is used")


async def test_a_name_server_that_does_not_answer(shop: Shop) -> None:
    gone = unused_address()
    report = await examined_over(shop.name_server.rocketmq, gone)
    assert sorted(codes(report)) == sorted([*OWN, "unreachable"])
    assert said(report, "unreachable") == f"name server {gone}: it does not answer"
    report = await examined_over(gone)
    assert codes(report) == ["unreachable"]
    assert said(report, "unreachable").startswith(f"name server {gone}: failed to query any")
    with pytest.raises(ConfigError, match="--rocketmq-namesrv-address"):
        await examined_over("nonsense")


async def test_a_name_server_that_brokers_are_not_given(shop: Shop) -> None:
    with run_mqnamesrv() as other:
        report = await examined_over(shop.name_server.rocketmq, other.rocketmq)
        assert sorted(codes(report)) == sorted([*OWN, "not-registered"])
        wanted = f"name server {other.rocketmq}: it knows 0 of 1 broker"
        assert said(report, "not-registered") == wanted


async def test_a_broker_that_is_registered_where_nobody_answers() -> None:
    gone = unused_address()
    with run_mqnamesrv() as name_server:
        client = RawClient(name_server.port)
        answer = client.ask(RequestCode.REGISTER_BROKER, brokerName="lost", brokerAddr=gone,
                            clusterName="C", haServerAddr="", brokerId=0)  # fmt: skip
        assert answer.code == 0, answer.remark
        report = await examined_over(name_server.rocketmq)
        client.close()
    assert codes(report) == ["unreachable"]
    wanted = f"broker lost, {gone}: it is registered, and does not answer there"
    assert said(report, "unreachable") == wanted


def test_brokers_of_several_versions() -> None:
    rows = [{"broker": name, "version": version, "answers": bool(version)}
            for name, version in (("a", "V4_9_7"), ("b", "V5_3_3"), ("c", ""))]  # fmt: skip
    (found,) = name_servers.versions(rows)
    assert (found.code, found.what) == ("versions", "V4_9_7 at a; V5_3_3 at b")
    assert list(name_servers.versions(rows[:1])) == []


def test_a_group_that_has_members_and_much_before_it() -> None:
    row: dict[str, Any] = {"group": "g", "lag": 20_000, "topics": ["t"], "members": 1}
    row["verdicts"] = verdicts.of_group(verdicts.GroupFacts(row["lag"], row["members"]))
    (found,) = name_servers.group(row)
    assert (found.code, found.what) == ("lag", "20,000 messages wait")


def test_messages_of_rocketmq_wait_for_no_channel(command: Commands) -> None:
    with run_mqbroker() as broker:
        client = RawClient(broker.port)
        answer = client.ask(
            RequestCode.SEND_MESSAGE, b"body", producerGroup="p", topic="t", defaultTopic="TBW102",
            defaultTopicQueueNums=4, queueId=1, sysFlag=0, bornTimestamp=0, flag=0, properties="",
            reconsumeTimes=0, unitMode="false", batch="false",
        )  # fmt: skip
        client.close()
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        ended = command("doctor", f"--nsqd-http-address={broker.http}")
        assert (ended.code, ended.out.splitlines()[-1]) == (0, "no fault found"), ended.out
