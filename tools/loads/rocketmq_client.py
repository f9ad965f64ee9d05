"""A client of mqbroker for loads that outlive it: raw requests, over one connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Serialization
from penstock.rocketmq.protocol.messages import batch_body, message
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage
from tools.harness.rocketmq.popping import Popped, popped

SUSPEND, SUBSCRIPTION = 2, 4
PULLED_MAX = 32
SECONDS_MAX = 60.0


class Sent(NamedTuple):
    """An acknowledged message: its id, and its place in the queue."""

    message_id: str
    queue_offset: int


class Connection:
    """One connection; one task at a time uses it."""

    def __init__(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], kind: Serialization
    ) -> None:
        self._streams = streams
        self._frames = frames.FrameReader()
        self._opaque = 0
        self._serialization = kind
        self.asked: Callable[[Command], None] = lambda command: None
        """Called with what the broker asks; by default nothing comes of it."""

    @classmethod
    async def open(
        cls, port: int, kind: Serialization = Serialization.JSON, host: str = "127.0.0.1"
    ) -> Connection:
        """Raises ConnectionError when nobody listens."""
        return cls(await asyncio.open_connection(host, port), kind)

    def close(self) -> None:
        self._streams[1].close()

    def request(self, code: int, fields: dict[str, Any], body: bytes = b"") -> Command:
        self._opaque += 1
        ext = {name: str(value) for name, value in fields.items()}
        return Command(code, self._opaque, ext, body, serialization=self._serialization)

    async def ask_all(self, requests: Sequence[Command]) -> list[Command]:
        """Send these with one write; their answers in the order of the requests.

        Raises ConnectionError when the broker is gone.
        """
        reader, writer = self._streams
        writer.write(b"".join(map(frames.encode, requests)))
        answers: dict[int, Command] = {}
        async with asyncio.timeout(SECONDS_MAX):
            while len(answers) < len(requests):
                while (answer := self._frames.next_command()) is not None:
                    if not answer.is_response:
                        self.asked(answer)
                        continue
                    assert answer.opaque not in answers, "a request was answered twice"
                    answers[answer.opaque] = answer
                if len(answers) < len(requests):
                    data = await reader.read(1 << 16)
                    if not data:
                        raise ConnectionResetError
                    self._frames.feed(data)
        return [answers[request.opaque] for request in requests]

    def tell(self, code: int, fields: dict[str, Any]) -> None:
        """Send a request that has no answer."""
        request = self.request(code, fields)
        request.flag = ONE_WAY
        self._streams[1].write(frames.encode(request))

    async def ask(self, code: int, fields: dict[str, Any], body: bytes = b"") -> Command:
        """One request and its answer."""
        return (await self.ask_all([self.request(code, fields, body)]))[0]

    # --- what clients do -----------------------------------------------------------------------

    async def make_topic(self, topic: str, queues: int) -> None:
        answer = await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
            "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0, "order": "false",
        })  # fmt: skip
        assert answer.code == 0, answer

    async def send(self, topic: str, queue: int, messages: Iterable[BatchedMessage]) -> list[Sent]:
        """Send these as requests of their own, with one write."""
        requests = [
            self.request(RequestCode.SEND_MESSAGE_V2, send_fields(topic, queue, text), body)
            for body, text, _ in messages
        ]
        return [_sent(answer)[0] for answer in await self.ask_all(requests)]

    async def send_batch(
        self, topic: str, queue: int, messages: Sequence[BatchedMessage]
    ) -> list[Sent]:
        """Send these as one batch."""
        fields = send_fields(topic, queue, "") | {"m": "true"}
        body = batch_body.encode(messages)
        sent = _sent(await self.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body))
        assert len(sent) == len(messages)
        return sent

    async def pull(
        self, topic: str, queue: int, offset: int, group: str, suspend_ms: int = 0
    ) -> list[StoredMessage]:
        """Messages from an offset on; none when there is nothing new within the time."""
        answer = await self.ask(RequestCode.PULL_MESSAGE, {
            "consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset,
            "maxMsgNums": PULLED_MAX, "sysFlag": SUBSCRIPTION | (SUSPEND if suspend_ms else 0),
            "commitOffset": 0, "suspendTimeoutMillis": suspend_ms, "subscription": "*",
            "subVersion": 0,
        })  # fmt: skip
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return []
        assert answer.code == 0, answer
        messages = list(message.decode_all(answer.body))
        assert int(answer.text("nextBeginOffset")) == offset + len(messages)
        return messages

    async def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The least and the next queue offset."""
        fields = {"topic": topic, "queueId": queue}
        low = await self.ask(RequestCode.GET_MIN_OFFSET, fields)
        high = await self.ask(RequestCode.GET_MAX_OFFSET, fields)
        return low.int64("offset"), high.int64("offset")

    async def pop(
        self, topic: str, group: str, invisible_ms: int, poll_ms: int = 0
    ) -> list[Popped]:
        """Pop messages, which hides them from the group for a time; polls if there is none yet."""
        return popped(await self.ask(RequestCode.POP_MESSAGE, {
            "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": PULLED_MAX,
            "invisibleTime": invisible_ms, "pollTime": poll_ms,
            "bornTime": int(time.time() * 1000), "initMode": 0,
        }))  # fmt: skip

    async def ack(self, group: str, each: Popped) -> None:
        """Finish a message that was popped."""
        message = each.message
        answer = await self.ask(RequestCode.ACK_MESSAGE, {
            "consumerGroup": group, "topic": message.topic, "queueId": message.queue,
            "offset": message.queue_offset, "extraInfo": each.receipt,
        })  # fmt: skip
        assert answer.code == 0, answer

    async def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
        answer = await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        assert answer.code == 0, answer

    async def committed(self, group: str, topic: str, queue: int) -> int:
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
        answer = await self.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        return answer.int64("offset") if answer.code == 0 else 0

    async def view(self, message_ids: Iterable[str]) -> list[StoredMessage]:
        """The messages of these ids."""
        requests = [
            self.request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": int(text[-16:], 16)})
            for text in message_ids
        ]
        answers = await self.ask_all(requests)
        for answer in answers:
            assert answer.code == 0, answer
        return [message.decode(answer.body)[0] for answer in answers]

    async def query(self, topic: str, key: str, *, unique: bool) -> list[StoredMessage]:
        """The messages with a key."""
        answer = await self.ask(RequestCode.QUERY_MESSAGE, {
            "topic": topic, "key": key, "maxNum": 32, "beginTimestamp": 0,
            "endTimestamp": 2**62,  # clocks may be set
            "_UNIQUE_KEY_QUERY": "true" if unique else "false",
        })  # fmt: skip
        return list(message.decode_all(answer.body)) if answer.code == 0 else []


def send_fields(topic: str, queue: int, properties: str) -> dict[str, Any]:
    """The fields of SEND_MESSAGE_V2."""
    return {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0,
            "g": 1_700_000_000_000, "h": 0, "i": properties, "j": 0, "k": "false",
            "m": "false"}  # fmt: skip


def _sent(answer: Command) -> list[Sent]:
    assert answer.code == 0, answer
    first = answer.int64("queueOffset")
    return [Sent(text, first + n) for n, text in enumerate(answer.text("msgId").split(","))]
