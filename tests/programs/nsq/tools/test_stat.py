from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.cluster import Cluster
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.producers import Producer
from penstock.cluster.stats import ChannelStats, TopicStats
from penstock.nsq.tools import stat
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import parse
from penstock.nsq.tools.run import Stop
from penstock.nsq.tools.stat import StatFlags, check, report

GOOD = ["--topic=t", "--channel=c", "--nsqd-http-address=h:1"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "--topic and --channel are required"),
        (["--topic=t"], "--topic and --channel are required"),
        ([*GOOD, "--interval=0s"], "--interval should be positive"),
        (
            [*GOOD, "--http-client-connect-timeout=0s"],
            "--http-client-connect-timeout should be positive",
        ),
        (
            [*GOOD, "--http-client-request-timeout=-1s"],
            "--http-client-request-timeout should be positive",
        ),
        ([*GOOD, "--count=0"], "--count should be positive"),
        (GOOD[:2], "--nsqd-http-address or --lookupd-http-address required"),
        (
            [*GOOD, "--lookupd-http-address=h:2"],
            "use --nsqd-http-address or --lookupd-http-address not both",
        ),
        (
            [*GOOD[:2], "--nsqd-http-address=http://h"],
            "--nsqd-http-address error - address should not contain scheme",
        ),
    ],
)
def test_checks_in_upstreams_order(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        check(parse(StatFlags, argv, "nsq_stat"))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [("x", 'parsing "x": invalid syntax'), ("3000000000", "value out of range")],
)
def test_the_count_is_a_number(value: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(StatFlags, [f"--count={value}"], "nsq_stat")
    assert left.value.code == 2
    assert reason in capsys.readouterr().err.splitlines()[0]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[ChannelStats]:
    """What the cluster says, one after another."""
    figures: list[ChannelStats] = []

    async def producers(*_: object) -> list[Producer]:
        return [Producer()]

    async def stats(*_: object, clients: bool) -> list[TopicStats]:
        return [TopicStats(channels=[figures.pop(0)])] if figures else []

    monkeypatch.setattr(Cluster, "topic_producers", producers)
    monkeypatch.setattr(Cluster, "stats", stats)
    return figures


async def test_so_many_reports(
    looks: list[ChannelStats], capsys: pytest.CaptureFixture[str]
) -> None:
    looks += [
        ChannelStats(channel_name="c", message_count=count) for count in range(0, 40 * 27, 40)
    ]
    flags = parse(StatFlags, [*GOOD, "--interval=1ms", "--count=26"], "nsq_stat")
    await report(flags, Stop())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 26 + 2 * 2
    assert [at for at, line in enumerate(lines) if line.startswith("ingress")] == [1, 27]
    assert looks == []


async def test_a_signal_ends_it(looks: list[ChannelStats]) -> None:
    looks += [ChannelStats(channel_name="c")]
    stop = Stop()
    asyncio.get_running_loop().call_later(0.01, stop.request)
    await report(parse(StatFlags, [*GOOD, "--interval=1h"], "nsq_stat"), stop)


async def test_what_is_not_there(
    looks: list[ChannelStats], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = parse(StatFlags, GOOD, "nsq_stat")
    with pytest.raises(
        ToolError, match=r"^ERROR: failed to find channel\(c\) in stats metadata for topic\(t\)$"
    ):
        await report(flags, Stop())

    async def failing(*_: object, **__: object) -> list[str]:
        raise NoAnswerError("why")

    monkeypatch.setattr(Cluster, "stats", failing)
    with pytest.raises(ToolError, match=r"^ERROR: failed to get nsqd stats - why$"):
        await report(flags, Stop())
    monkeypatch.setattr(Cluster, "topic_producers", failing)
    with pytest.raises(ToolError, match=r"^ERROR: failed to get topic producers - why$"):
        await report(flags, Stop())


async def test_a_topic_that_no_node_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(Cluster, "topic_producers", none)
    with pytest.raises(ToolError, match=r"failed to query any nsqd: no node has the topic t$"):
        await report(parse(StatFlags, GOOD, "nsq_stat"), Stop())


def test_run_checks_first() -> None:
    with pytest.raises(ToolError):
        stat.run(["--topic=t"])
