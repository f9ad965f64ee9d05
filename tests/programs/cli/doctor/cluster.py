"""Nodes with wrong clocks, and the doctor who looks at them."""

from __future__ import annotations

from penstock.cli.doctor.cluster import examine_cluster
from penstock.cli.doctor.data_path import USED_MAX
from penstock.cli.doctor.report import Report
from penstock.cli.shared.node_selection import NodeSelection
from penstock.core.clock import SYSTEM_CLOCK
from tests.programs.nsq.nsqd.conftest import Running


class Shifted:
    """The system's clock, set wrong."""

    def __init__(self, ahead_ns: int) -> None:
        self.ahead_ns = ahead_ns

    def monotonic_ns(self) -> int:
        return SYSTEM_CLOCK.monotonic_ns() + self.ahead_ns

    def wall_ns(self) -> int:
        return SYSTEM_CLOCK.wall_ns() + self.ahead_ns


def address(node: Running) -> str:
    return f"127.0.0.1:{node.nsqd.ports.http}"


async def examined(
    *nodes: Running | str, lookupds: tuple[str, ...] = (), used_max: int = USED_MAX
) -> Report:
    addresses = tuple(each if isinstance(each, str) else address(each) for each in nodes)
    return await examine_cluster(
        NodeSelection(addresses, lookupds), SYSTEM_CLOCK, used_max=used_max
    )


def codes(report: Report) -> list[str]:
    assert all(each.remedy for each in report.findings)
    return [each.code for each in report.findings]
