from __future__ import annotations

from pathlib import Path

from penstock.core.metrics import node as metrics
from penstock.node.node import Node
from penstock.nsq.nsqd.data_path import open_node
from tests.metrics_pages import Page, parse
from tests.unit.node.test_node import options


async def page_of(node: Node) -> Page:
    (source,) = node.vitals.sources
    return parse("".join([samples.text() async for samples in source()]))


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
