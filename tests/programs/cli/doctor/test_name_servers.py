"""Faults of a small cluster of RocketMQ, made of real daemons, and one without any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.admin.rocketmq import verdicts
from penstock.cli.doctor import name_servers
from penstock.cli.doctor.report import Report
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import run_mqnamesrv, run_rocketmq
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient
from tools.harness.rocketmq.shop import Shop, running_shop

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


async def examined(*addresses: str) -> Report:
    return await name_servers.examine_name_servers(addresses, (), SYSTEM_CLOCK)


def codes(report: Report) -> list[str]:
    assert all(each.remedy for each in report.findings)
    return sorted(each.code for each in report.findings)


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
    report = await examined(shop.name_server.rocketmq)
    assert codes(report) == OWN
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
        report = await examined(shop.name_server.rocketmq)
    finally:
        let(True)
    assert codes(report) == ["dead-letters", "paused"]
    assert said(report, "paused").endswith("archive: 12 messages wait, and it may not consume")


async def test_a_disk_that_is_nearly_full(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "DISK_WARN", 0.0)
    report = await examined(shop.name_server.rocketmq)
    assert codes(report) == sorted([*OWN, "disk-space"])
    assert said(report, "disk-space").endswith("% of its disk is used")


async def test_a_name_server_that_does_not_answer(shop: Shop) -> None:
    gone = unused_address()
    report = await examined(shop.name_server.rocketmq, gone)
    assert codes(report) == sorted([*OWN, "unreachable"])
    assert said(report, "unreachable") == f"name server {gone}: it does not answer"


async def test_no_name_server_that_answers() -> None:
    gone = unused_address()
    report = await examined(gone)
    assert codes(report) == ["unreachable"]
    assert said(report, "unreachable").startswith(f"name server {gone}: failed to query any")


async def test_a_name_server_that_brokers_are_not_given(shop: Shop) -> None:
    with run_mqnamesrv() as other:
        report = await examined(shop.name_server.rocketmq, other.rocketmq)
        assert codes(report) == sorted([*OWN, "not-registered"])
        wanted = f"name server {other.rocketmq}: it knows 0 of 1 broker"
        assert said(report, "not-registered") == wanted


async def test_a_broker_that_is_registered_where_nobody_answers() -> None:
    gone = unused_address()
    with run_mqnamesrv() as name_server:
        client = RawClient(name_server.port)
        answer = client.ask(RequestCode.REGISTER_BROKER, brokerName="lost", brokerAddr=gone,
                            clusterName="C", haServerAddr="", brokerId=0)  # fmt: skip
        assert answer.code == 0, answer.remark
        report = await examined(name_server.rocketmq)
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
    row["verdicts"] = verdicts.of_group(verdicts.Facts(row["lag"], row["members"]))
    (found,) = name_servers.group(row)
    assert (found.code, found.what) == ("lag", "20,000 messages wait")


async def test_an_address_that_is_none() -> None:
    with pytest.raises(ConfigError, match="--rocketmq-namesrv-address"):
        await examined("nonsense")
