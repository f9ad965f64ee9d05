from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.nsq.client import Config
from penstock.nsq.client.errors import BadMessage, BadTopic, NotConnected
from penstock.nsq.tools.to_nsq.sender import Sender
from penstock.testing.daemons import Daemon, run_nsqd


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--max-msg-size=100") as daemon:
        yield daemon


def published(nsqd: Daemon, topic: str) -> int:
    url = f"http://{nsqd.http}/stats?format=json&topic={topic}"
    topics = json.loads(urllib.request.urlopen(url, timeout=30).read())["topics"]
    return sum(each["message_count"] for each in topics)


async def send(address: str, topic: str, *portions: list[bytes]) -> int:
    """The bytes that were said to be published. Raises the first error."""
    sizes: list[int] = []
    sender = None
    try:
        async with asyncio.TaskGroup() as group:
            sender = Sender(address, topic, Config(), group, sizes.append)
            for portion in portions:
                await sender.send(portion)
    except ExceptionGroup as error:
        raise error.exceptions[0] from None
    finally:
        assert sender is not None
        await sender.close()
    return sum(sizes)


async def test_many_portions(nsqd: Daemon) -> None:
    portions = [[b"record %d" % number] * 10 for number in range(50)]
    bytes_published = await send(nsqd.tcp, "many", [b"one"], *portions)
    assert published(nsqd, "many") == 501
    assert bytes_published == 4 + sum(len(record) + 1 for each in portions for record in each)


async def test_a_record_too_big_is_named_and_those_before_it_are_published(nsqd: Daemon) -> None:
    with pytest.raises(BadMessage) as caught:
        await send(nsqd.tcp, "big", [b"a", b"b", b"x" * 101, b"c"])
    assert str(caught.value) == "E_BAD_MESSAGE PUB message too big 101 > 100"
    assert published(nsqd, "big") == 2


async def test_a_bad_topic_is_refused_in_the_words_for_one_record(nsqd: Daemon) -> None:
    with pytest.raises(BadTopic) as caught:
        await send(nsqd.tcp, "bad!", [b"a", b"b"])
    assert str(caught.value) == 'E_BAD_TOPIC PUB topic name "bad!" is not valid'


async def test_nobody_there() -> None:
    with pytest.raises(NotConnected, match="connection refused"):
        await send("127.0.0.1:1", "t", [b"a"])
