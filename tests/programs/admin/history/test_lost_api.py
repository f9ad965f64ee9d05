"""The last figures of nodes that do not answer."""

from __future__ import annotations

import pytest

from penstock.admin.history.lost import GIVEN_UP_S
from tests.unit.admin.conftest import Running, StartAdmin, Two, channel, topic


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    """An nsqadmin that has seen both nodes, of which one is gone."""
    started: Running = await admin(
        lookupd_http_addresses=(two.lookupd.address,), history_interval=1000 * 10**9
    )
    poller = started.admin.poller
    assert poller is not None
    figures = {"depth": 7, "backend_depth": 3, "in_flight_count": 2, "client_count": 4}
    stats = {"topics": [topic("other", depth=1), topic("t", channel("c", **figures), depth=5),
                        topic("u", channel("c"))]}  # fmt: skip
    two.nsqds[0].answers["/stats"] = stats
    await poller.refresh()
    del two.nsqds[0].answers["/stats"]
    await poller.refresh()
    return started


async def test_a_topic_with_its_channels(two: Two, running: Running) -> None:
    (node,) = (await running.get("/api/lost?topic=t"))["nodes"]
    assert (node["node"], node["depth"]) == (two.nsqds[0].address, 13)
    assert node["until"] - node["at"] == GIVEN_UP_S
    (told,) = node["topics"]
    assert (told["topic_name"], told["depth"]) == ("t", 5)
    (found,) = told["channels"]
    assert (found["channel_name"], found["depth"], found["memory_depth"]) == ("c", 7, 4)
    assert (found["in_flight_count"], found["client_count"]) == (2, 0)
    for name in ("u", "none"):  # nothing waits in u
        assert (await running.get(f"/api/lost?topic={name}"))["nodes"] == []


async def test_a_node_with_its_topics(two: Two, running: Running) -> None:
    (node,) = (await running.get(f"/api/lost?node={two.nsqds[0].address}"))["nodes"]
    assert [each["topic_name"] for each in node["topics"]] == ["other", "t", "u"]
    assert node["topics"][1]["in_channels"]["depth"] == 7
    assert (await running.get("/api/lost?node=x:1"))["nodes"] == []


async def test_the_nodes_alone(running: Running) -> None:
    (node,) = (await running.get("/api/lost"))["nodes"]
    assert node["topics"] == []


async def test_without_a_history(admin: StartAdmin) -> None:
    other = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    assert (await other.ask("GET", "/api/lost"))[0] == 404
