"""A node is asked once, by whatever address, and noticed in its log by nothing."""

from __future__ import annotations

import pytest

from tests.programs.cli.doctor.cluster import codes, examined
from tests.programs.nsq.nsqd.conftest import Start, start

__all__ = ["start"]


async def test_a_node_by_two_addresses_is_one(start: Start) -> None:
    node = await start()
    await node.publish("t", b"x")
    await node.consumer("t")
    report = await examined(node, f"localhost:{node.nsqd.ports.http}")
    assert (codes(report), len(report.checked)) == ([], 1)


async def test_a_look_leaves_no_error_in_the_log_of_a_node(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    node = await start()
    assert codes(await examined(node)) == []
    await node.stop()
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []
