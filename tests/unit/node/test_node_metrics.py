"""The figures of a node, its topics, channels and groups, as a page of metrics shows them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from penstock.broker.group_figures import ConsumerGroup, GroupMember
from penstock.core.metrics import node as metrics
from penstock.core.metrics.exposition import Samples
from penstock.core.units import SECOND
from penstock.net.budget import Memory
from penstock.net.vitals.vitals import HEALTHY
from penstock.node import node_metrics
from penstock.node.dialect import Dialect
from penstock.node.log_groups import LogGroups
from penstock.node.node import Node
from penstock.node.node_metrics import NodeMetrics
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from tests.metrics_pages import Page, parse
from tests.unit.broker.conftest import Reader, World
from tests.unit.node.test_node import options

TOPIC_COUNT = 5


@pytest.fixture
def world() -> World:
    return World()


class FakeDialect:
    """A dialect with one group, on the topic ``t0``."""

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        members = [GroupMember(name, "127.0.0.1:1", "JAVA", 1) for name in ("a", "b")]
        return [ConsumerGroup("g", "CLUSTERING", members, {0: 3}, 7, 0.5)] if topic == "t0" else []


async def shown(source: Callable[[], AsyncIterator[Samples]]) -> Page:
    return parse("".join([samples.text() async for samples in source()]))


async def page_of(node: Node) -> Page:
    (source,) = node.vitals.sources
    return await shown(source)


def metrics_of(
    world: World, *dialects: FakeDialect, percentiles: tuple[float, ...] = ()
) -> NodeMetrics:
    groups = LogGroups(world.clock)
    groups.leave_out("of a dialect:")
    return NodeMetrics(world.broker, lambda: HEALTHY, Memory.of(NsqdOptions()), groups,
                       [cast(Dialect, each) for each in dialects], percentiles)  # fmt: skip


async def breathers(page: NodeMetrics) -> int:
    """The turns that other tasks get while the figures are gathered."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await shown(page.source)
    task.cancel()
    return turns


async def test_a_node_without_a_topic_has_no_figure_of_topics(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path))
    page = await page_of(node)
    assert page[metrics.HEALTHY.name].value() == 1
    assert page[metrics.TOPICS.name].value() == page[metrics.CHANNELS.name].value() == 0
    assert 0 < page[metrics.DISK_FREE.name].value() <= page[metrics.DISK_SIZE.name].value()
    assert metrics.TOPIC_DEPTH.name not in page
    assert metrics.GROUP_LAG.name not in page
    await node.close()


async def test_a_node_is_ready_when_all_its_daemons_are_open(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path))
    assert node.vitals.missing() == ["NOK - not all ports are open yet"]
    node.start()
    assert not node.vitals.missing()
    await node.close()


async def test_a_data_path_out_of_reach_has_no_figure_of_its_disk(tmp_path: Path) -> None:
    path, away = tmp_path / "data", tmp_path / "away"
    path.mkdir()
    node = await open_node(options(path))
    path.rename(away)
    page = await page_of(node)
    away.rename(path)
    assert page[metrics.TOPICS.name].value() == 0
    assert not page.keys() & {metrics.DISK_FREE.name, metrics.DISK_SIZE.name}
    await node.close()


async def test_topics_and_channels_show_their_figures(world: World) -> None:
    busy, idle = world.channel("busy"), world.channel("idle")
    world.publish(b"1", b"22", b"333")
    reader = Reader(world, busy, 2)
    assert reader.offsets() == [0, 1]
    world.topic.pause()
    world.broker.topic("other")
    page = await shown(metrics_of(world).source)
    assert (page[metrics.TOPICS.name].value(), page[metrics.CHANNELS.name].value()) == (2, 2)
    assert page[metrics.TOPIC_MESSAGES.name].value(topic="t") == 3
    assert page[metrics.TOPIC_BYTES.name].value(topic="t") == 6
    assert page[metrics.TOPIC_MESSAGES.name].value(topic="other") == 0
    assert page[metrics.TOPIC_PAUSED.name].value(topic="t") == 1
    assert page[metrics.TOPIC_PAUSED.name].value(topic="other") == 0
    for metric, of_busy, of_idle in [
        (metrics.CHANNEL_DEPTH, 1, 3),
        (metrics.CHANNEL_IN_FLIGHT, 2, 0),
        (metrics.CHANNEL_DELIVERIES, 2, 0),
        (metrics.CHANNEL_CLIENTS, 1, 0),
    ]:
        of = page[metric.name]
        assert of.value(topic="t", channel=busy.name) == of_busy
        assert of.value(topic="t", channel=idle.name) == of_idle
        assert len(of.samples) == 2
    assert metrics.CHANNEL_LATENCY.name not in page  # nobody asked for it


async def test_latencies_are_in_seconds_and_a_topic_has_those_of_all_its_channels() -> None:
    world = World()
    world.options.channel.latency_window_ns = 10 * SECOND
    world.restart()
    channels = [world.channel(name) for name in ("slow", "fast", "idle")]
    world.broker.topic("without a channel")
    readers = [Reader(world, channel, 1) for channel in channels]
    world.publish(b"1")
    for reader in readers[::-1][1:]:
        assert reader.offsets() == [0]
        world.clock.advance(2 * SECOND)
        assert reader.finish(0) == []
    page = await shown(metrics_of(world, percentiles=(0.5, 1.0)).source)
    channel, topic = page[metrics.CHANNEL_LATENCY.name], page[metrics.TOPIC_LATENCY.name]
    for name, took in ("slow", 4), ("fast", 2):
        for quantile in ("0.5", "1"):
            assert channel.value(topic="t", channel=name, quantile=quantile) == took
        assert channel.value("_sum", topic="t", channel=name) == took
        assert channel.value("_count", topic="t", channel=name) == 1
    assert math.isnan(channel.value(topic="t", channel="idle", quantile="0.5"))
    assert channel.value("_count", topic="t", channel="idle") == 0
    assert topic.value(topic="t", quantile="0.5") == 2
    assert topic.value(topic="t", quantile="1") == 4
    assert (topic.value("_sum", topic="t"), topic.value("_count", topic="t")) == (6, 2)
    assert {dict(pairs)["topic"] for _, pairs in topic.samples} == {"t"}


async def test_groups_that_read_the_log_show_lag_and_age(world: World) -> None:
    world.fill(5)
    world.topic.commit_group("spark", 2)
    world.topic.commit_group("of a dialect:g", 0)
    world.broker.topic("without a group")
    world.clock.advance(3 * SECOND)
    page = await shown(metrics_of(world).source)
    lag, age = page[metrics.LOG_GROUP_LAG.name], page[metrics.LOG_GROUP_AGE.name]
    assert lag.value(topic="t", group="spark") == 3
    assert age.value(topic="t", group="spark") == 3
    assert len(lag.samples) == len(age.samples) == 1


async def test_groups_of_dialects_show_lag_rate_and_members(world: World) -> None:
    for name in ("t0", "t1"):
        world.broker.topic(name)
    page = await shown(metrics_of(world, FakeDialect()).source)
    for metric, value in (
        (metrics.GROUP_LAG, 7), (metrics.GROUP_RATE, 0.5), (metrics.GROUP_MEMBERS, 2)
    ):  # fmt: skip
        assert page[metric.name].value(topic="t0", group="g") == value
        assert len(page[metric.name].samples) == 1


async def test_other_tasks_get_their_turns_while_many_figures_are_gathered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await breathers(metrics_of(world)) == 0
    for number in range(TOPIC_COUNT):
        world.channel("c", world.broker.topic(f"t{number}"))
    assert await breathers(metrics_of(world)) == 0
    monkeypatch.setattr(node_metrics, "_PIECE", 2)
    of_channels = TOPIC_COUNT // 2
    assert await breathers(metrics_of(world)) == of_channels
    of_topics = (TOPIC_COUNT + 1) // 2
    assert await breathers(metrics_of(world, FakeDialect())) == of_channels + of_topics
    world.broker.topic("t0").commit_group("spark", 0)
    assert await breathers(metrics_of(world)) == of_channels + 1
