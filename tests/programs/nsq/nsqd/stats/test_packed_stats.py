from __future__ import annotations

import base64
import struct
from typing import Any, cast

from penstock.node.dialect import Dialect
from tests.programs.nsq.nsqd.conftest import Running, Start, mpub
from tests.unit.nsq.nsqd.stats.test_group_stats import Groups

PATH = "/stats?format=json&packed=true"


def rows(answer: dict[str, Any]) -> list[dict[str, int]]:
    """The figures of each topic, then of each channel."""
    names = answer["figures"]
    found = struct.iter_unpack(f"<{len(names)}q", base64.b64decode(answer["packed"]))
    return [dict(zip(names, row, strict=True)) for row in found]


async def test_nothing(nsqd: Running) -> None:
    answer = await nsqd.json(PATH)
    assert list(answer) == ["packed", "figures", "topics", "channels", "latencies", "groups",
                            "version", "health", "start_time"]  # fmt: skip
    assert (answer["packed"], answer["topics"], answer["channels"]) == ("", [], [])
    assert answer["start_time"] == nsqd.nsqd.node.started_ns // 10**9
    assert b"\nTopics: None\n" in (await nsqd.get("/stats?packed=true"))[1]


async def test_the_same_figures_as_without(nsqd: Running) -> None:
    for topic, channel in (("t", "b"), ("t", "c"), ("u", "d")):
        await nsqd.post(f"/topic/create?topic={topic}")
        await nsqd.post(f"/channel/create?topic={topic}&channel={channel}")
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", b"1", b"22", b"333")) == b"OK"
    await nsqd.post("/channel/pause?topic=u&channel=d")
    consumer = await nsqd.consumer("t", ready=2)
    await consumer.messages(2)
    plain = (await nsqd.json("/stats?format=json"))["topics"]
    channels = [each for topic in plain for each in topic["channels"]]
    answer = await nsqd.json(PATH)
    assert answer["topics"] == ["t", "u"]
    assert answer["channels"] == [["b", "c"], ["d"]]
    assert rows(answer) == [
        {name: each.get(name, 0) for name in answer["figures"]} for each in [*plain, *channels]
    ]
    assert [row["in_flight_count"] for row in rows(answer)] == [0, 0, 0, 2, 0]
    assert [row["paused"] for row in rows(answer)] == [0, 0, 0, 0, 1]
    one = await nsqd.json(f"{PATH}&topic=u")
    assert (one["topics"], len(rows(one))) == (["u"], 2)
    assert (answer["latencies"], answer["groups"]) == ([], [])


async def test_latencies(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(0.99, 0.5))
    consumer = await nsqd.consumer("t", ready=1)
    await nsqd.publish("t", b"x")
    consumer.send(b"FIN %s\n" % (await consumer.message()).id)
    channel = nsqd.nsqd.node.broker.topics["t"].channels["c"]
    await nsqd.until(lambda: channel.state.in_flight_count == 0)
    topic = await nsqd.topic("t")
    expected = [
        [each["quantile"], each["value"]] for each in topic["e2e_processing_latency"]["percentiles"]
    ]
    assert (await nsqd.json(PATH))["latencies"] == [[0, expected], [1, expected]]


async def test_groups(nsqd: Running) -> None:
    await nsqd.publish("t", b"x")
    await nsqd.publish("u", b"x")
    nsqd.nsqd.node.dialects.append(cast(Dialect, Groups()))
    (found,) = (await nsqd.json(PATH))["groups"]
    plain = await nsqd.topic("t")
    assert (found["topic_name"], found["log_groups"]) == ("t", [])
    shown = [{**each, "clients": None} for each in plain["consumer_groups"]]
    assert found["consumer_groups"] == shown
