"""What a client of these tests asks a broker: sends, batches, pulls, and pulls that are held."""

from __future__ import annotations

import time
from typing import Any

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from tools.harness.rocketmq.raw_client import RawClient

FOR_LONG_MS = 600_000
"""A pull's time that is never up: no client of a test waits so long for an answer."""
HELD: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": FOR_LONG_MS}
PROPERTIES = "KEYS\x01k\x02TAGS\x01TagA\x02WAIT\x01true"


def send_fields(topic: str, queue: int = 0, **fields: Any) -> dict[str, Any]:
    """The fields of a send to a topic that is made with 4 queues."""
    return {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1700000000000,
            "h": 0, "i": PROPERTIES, "j": 0, "k": "false", **fields}  # fmt: skip


def send(
    client: RawClient, topic: str, body: bytes = b"x", queue: int = 0, **fields: Any
) -> Command:
    return client.ask(RequestCode.SEND_MESSAGE_V2, body, **send_fields(topic, queue, **fields))


def send_batch(
    client: RawClient, topic: str, body: bytes, text: str = "", queue: int = 2
) -> Command:
    """Send a batch; ``text`` has the batch's own properties."""
    fields = send_fields(topic, queue, g=1, i=text, m="true")
    return client.ask(RequestCode.SEND_BATCH_MESSAGE, body, **fields)


def pull_fields(topic: str, queue: int, offset: int, **fields: Any) -> dict[str, Any]:
    return {
        "consumerGroup": "CG", "topic": topic, "queueId": queue, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 0, "subscription": "*", **fields,
    }  # fmt: skip


def pull(
    client: RawClient, topic: str, queue: int, offset: int, **fields: Any
) -> tuple[Command, list[StoredMessage]]:
    answer = client.ask(RequestCode.PULL_MESSAGE, **pull_fields(topic, queue, offset, **fields))
    return answer, list(decode_all(answer.body))


def begin_pull(client: RawClient, topic: str, **fields: Any) -> Command:
    """Ask for what comes behind the first message, which will be held."""
    asked = pull_fields(topic, 0, 1, **{**HELD, **fields})
    return client.begin(RequestCode.PULL_MESSAGE, **asked)


def arrived(client: RawClient, topic: str, offset: int) -> StoredMessage:
    """Waits for the message at this offset of a topic's first queue."""
    answer, messages = pull(client, topic, 0, offset, **HELD)
    assert answer.code == 0, answer.remark
    return messages[0]


def wait_until_held(rocket: RocketBroker, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(rocket.services.held_pulls) != count:
        assert time.monotonic() < deadline, len(rocket.services.held_pulls)
        time.sleep(0.01)


def make_topic(client: RawClient, topic: str, queues: int = 4, **fields: Any) -> Command:
    wanted = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
        "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG", "order": "false",
        **fields,
    }  # fmt: skip
    return client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **wanted)


def has_route(routes: RawClient, topic: str) -> bool:
    """Whether the name server knows a topic."""
    code = routes.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).code
    assert code in (0, 17)
    return code == 0
