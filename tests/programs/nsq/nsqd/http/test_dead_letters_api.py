"""/deadletters/topics: which topics have dead letters, and how many are left."""

from __future__ import annotations

import json
from typing import Any

from penstock.nsq.dead_letters.topics import CHANNEL
from tests.programs.nsq.nsqd.conftest import Running


async def topics(nsqd: Running) -> list[dict[str, Any]]:
    return list((await nsqd.json("/deadletters/topics"))["topics"])


async def test_by_where_channels_send_them_and_by_name(nsqd: Running) -> None:
    for topic in ("t", "grave", "other", "old.dead"):
        await nsqd.post(f"/topic/create?topic={topic}")
    await nsqd.post("/channel/create?topic=t&channel=c")
    assert [each["topic"] for each in await topics(nsqd)] == ["old.dead"]
    body = json.dumps({"max_attempts": 1, "dead_letter_topic": "grave"}).encode()
    assert (await nsqd.post("/channel/config?topic=t&channel=c", body))[0] == 200
    assert [each["topic"] for each in await topics(nsqd)] == ["grave", "old.dead"]


async def test_what_is_left(nsqd: Running) -> None:
    await nsqd.publish("t.dead", b"a", b"b", b"c")
    row = {"topic": "t.dead", "letters": 3, "is_rocketmq": False, "channel": None}
    assert await topics(nsqd) == [row]
    await nsqd.post(f"/channel/create?topic=t.dead&channel={CHANNEL}&from=oldest")
    assert await topics(nsqd) == [{**row, "channel": CHANNEL}]
    consumer = await nsqd.consumer("t.dead", CHANNEL)
    message = await consumer.message()
    assert (await topics(nsqd))[0]["letters"] == 3, "one of them is in flight"
    consumer.send(b"FIN %b\n" % message.id)

    async def finished() -> bool:
        return bool((await topics(nsqd))[0]["letters"] == 2)

    await nsqd.until(finished)
