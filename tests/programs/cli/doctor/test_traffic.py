"""Messages that wait for nobody are found, where they wait."""

from __future__ import annotations

import pytest

from penstock.core.units import HOUR
from tests.programs.cli.doctor.cluster import Shifted, codes, examined
from tests.programs.nsq.nsqd.conftest import Start, start

__all__ = ["start"]


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        (["channel/create?topic=t&channel=c", "channel/pause?topic=t&channel=c"], "paused",
         "channel c"),
        (["channel/create?topic=t&channel=c", "topic/pause?topic=t"], "paused", "topic t"),
        (["channel/create?topic=t&channel=c"], "unread", "1 message waits, and nobody reads it"),
        ([], "no-channel", "1 message waits, and there is no channel"),
    ],
)  # fmt: skip
async def test_messages_that_wait_for_nobody(
    start: Start, steps: list[str], code: str, said: str
) -> None:
    node = await start()
    await node.post("/topic/create?topic=t")
    for step in steps:
        assert (await node.post(f"/{step}"))[0] == 200
    await node.publish("t", b"x")
    report = await examined(node)
    assert codes(report) == [code]
    assert said in f"{report.findings[0].where}: {report.findings[0].what}"


async def test_a_remedy_is_about_the_channel_of_that_name_alone(start: Start) -> None:
    node = await start()
    for step in ("topic/create?topic=t", "channel/create?topic=t&channel=c%23ephemeral",
                 "channel/pause?topic=t&channel=c%23ephemeral"):  # fmt: skip
        assert (await node.post(f"/{step}"))[0] == 200
    await node.publish("t", b"x")
    (found,) = (await examined(node)).findings
    assert found.remedy == "POST /channel/unpause?topic=t&channel=c%23ephemeral"


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
