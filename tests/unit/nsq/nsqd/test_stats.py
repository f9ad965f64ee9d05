"""/stats; the recorded exchanges check every key and width."""

from __future__ import annotations

import re

import pytest

from penstock.nsq.nsqd import stats

from .conftest import Running, mpub, pub


async def test_an_empty_broker(nsqd: Running) -> None:
    status, body = await nsqd.get("/stats?format=json")
    assert status == 200
    head = b'{"version":"1.3.0","health":"OK","start_time":%d,"topics":[],"memory":{'
    assert body.startswith(head % (nsqd.nsqd.started_ns // 10**9))
    assert body.endswith(b'"producers":null}')
    text = (await nsqd.get("/stats"))[1].decode()
    assert "\nHealth: OK\n" in text
    assert text.endswith("\nTopics: None\n\nProducers: None\n")


async def test_counts(nsqd: Running) -> None:
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", b"1", b"22", b"333")) == b"OK"
    assert await producer.ask(pub("u", b"x")) == b"OK"
    consumer = await nsqd.consumer("t", ready=2)
    first, _ = await consumer.messages(2)
    consumer.send(b"RDY 1\nFIN %s\n" % first.id)
    await nsqd.until(lambda: nsqd.nsqd.broker.topics["t"].channels["c"].in_flight_count == 1)
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["message_count"], topic["message_bytes"]) == (0, 3, 6)
    channel = topic["channels"][0]
    assert (channel["depth"], channel["in_flight_count"], channel["message_count"]) == (1, 1, 3)
    (client,) = channel["clients"]
    assert (client["state"], client["ready_count"], client["in_flight_count"]) == (3, 1, 1)
    assert (client["message_count"], client["finish_count"]) == (2, 1)
    (publisher,) = (await nsqd.json("/stats?format=json"))["producers"]
    assert publisher["pub_counts"] == [{"topic": "t", "count": 3}, {"topic": "u", "count": 1}]


async def test_filters(nsqd: Running) -> None:
    for name in ("b", "a"):
        await nsqd.publish(name, b"x")
    await nsqd.post("/channel/create?topic=a&channel=c")
    path = "/stats?format=json"
    assert [t["topic_name"] for t in (await nsqd.json(path))["topics"]] == ["a", "b"]
    assert [t["topic_name"] for t in (await nsqd.json(f"{path}&channel=c"))["topics"]] == ["a"]
    assert (await nsqd.json(f"{path}&topic=b&channel=c"))["topics"] == []
    assert (await nsqd.json(f"{path}&topic=none"))["topics"] is None
    bare = await nsqd.json(f"{path}&topic=a&include_clients=false&include_mem=0")
    assert "memory" not in bare
    assert bare["producers"] is None
    assert bare["topics"][0]["channels"][0]["clients"] is None


async def test_the_memory_queue_and_what_is_behind_it(nsqd: Running) -> None:
    nsqd.nsqd.broker._options.channel.mem_queue_size = 2
    await nsqd.publish("t", *[b"x"] * 5)
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["backend_depth"]) == (5, 3)
    await nsqd.post("/channel/create?topic=t&channel=c")
    channel = await nsqd.channel("t")
    assert (channel["depth"], channel["backend_depth"]) == (5, 3)


async def test_text(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=1)
    await nsqd.publish("t", b"x")
    await consumer.message()
    producer = await nsqd.connect()
    assert await producer.ask(pub("t", b"y")) == b"OK"
    await nsqd.post("/channel/pause?topic=t&channel=c")
    text = (await nsqd.get("/stats"))[1].decode()
    assert re.search(r"^   \[t {14}\] depth: 0     be-depth: 0     msgs: 2        e2e%: $", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^   \*P \[c {24}\] depth: 1     be-depth: 0     inflt: 1    ", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^        \[V2 127\.0\.0\.1:\d+ +\] state: 3 inflt: 1    rdy: 1    ", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^   \[V2 127\.0\.0\.1:\d+ +\] msgs: 1        topics: t=1 connected: \d+s$",
                     text, re.MULTILINE)  # fmt: skip


async def test_bad_queries(nsqd: Running) -> None:
    assert await nsqd.get("/stats?x=%zz") == (400, b'{"message":"INVALID_REQUEST"}')


def test_memory_figures_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stats.memory()["heap_in_use_bytes"] > 1_000_000

    def missing(path: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", missing)
    assert stats.memory()["heap_in_use_bytes"] == 0
