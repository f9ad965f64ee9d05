"""A client that pops, with receipts as Java's clients make them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all

from .raw_client import RawClient


class Popped(NamedTuple):
    """A message and the receipt for it."""

    message: StoredMessage
    receipt: str

    @property
    def body(self) -> bytes:
        return self.message.body


class Popper:
    """A consumer of one group on one topic."""

    def __init__(self, client: RawClient, topic: str, group: str = "G") -> None:
        self.client = client
        self.topic = topic
        self.group = group

    def fields(self, **more: Any) -> dict[str, Any]:
        return {"consumerGroup": self.group, "topic": self.topic, "queueId": -1, **more}

    def ask(
        self, count: int = 32, invisible_ms: int = 60_000, poll_ms: int = 0, **more: Any
    ) -> Command:
        return self.client.ask(
            RequestCode.POP_MESSAGE,
            **{**self.fields(maxMsgNums=count, invisibleTime=invisible_ms, pollTime=poll_ms,
                             bornTime=1, initMode=0), **more},
        )  # fmt: skip

    def pop_in_order(self, count: int = 32, invisible_ms: int = 60_000, **more: Any) -> Command:
        return self.ask(count, invisible_ms, order="true", **more)

    def pop(self, count: int = 32, invisible_ms: int = 60_000, **more: Any) -> list[Popped]:
        return popped(self.ask(count, invisible_ms, **more))

    def ack(self, each: Popped) -> Command:
        return self.client.ask(RequestCode.ACK_MESSAGE, **self.of(each))

    def change(self, each: Popped, invisible_ms: int) -> Command:
        return self.client.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
                               **self.of(each, invisibleTime=invisible_ms))  # fmt: skip

    def of(self, each: Popped, **more: Any) -> dict[str, Any]:
        """The fields of a request about a message."""
        message = each.message
        return {**self.fields(), "queueId": message.queue, "offset": message.queue_offset,
                "extraInfo": each.receipt, **more}  # fmt: skip

    def batch_ack(self, all_popped: Sequence[Popped]) -> Command:
        """One request for messages of one pop."""
        acks = []
        for queue in {each.message.queue for each in all_popped}:
            own = [each for each in all_popped if each.message.queue == queue]
            start, pop_ms, invisible_ms, revive, retry = own[0].receipt.split(" ")[:5]
            bits = 0
            for each in own:
                bits |= 1 << each.message.queue_offset - int(start)
            data = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
            acks.append({"c": self.group, "t": self.topic, "r": retry, "so": int(start),
                         "q": queue, "rq": int(revive), "pt": int(pop_ms),
                         "it": int(invisible_ms),
                         "b": base64.b64encode(data).decode()})  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": acks}).encode()
        return self.client.ask(RequestCode.BATCH_ACK_MESSAGE, body)


def popped(answer: Command) -> list[Popped]:
    """The messages of an answer with their receipts; none when there were none in time."""
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    ext = answer.ext or {}
    starts = {words[1]: words[2] for words in map(str.split, ext["startOffsetInfo"].split(";"))}
    offsets = {words[1]: words[2].split(",")
               for words in map(str.split, ext["msgOffsetInfo"].split(";"))}  # fmt: skip
    found = []
    for message in decode_all(answer.body):
        queue = str(message.queue)
        assert str(message.queue_offset) in offsets[queue]
        receipt = " ".join((
            starts[queue], ext["popTime"], ext["invisibleTime"], ext["reviveQid"], "0",
            "broker-a", queue, str(message.queue_offset),
        ))  # fmt: skip
        found.append(Popped(message, receipt))
    assert sum(map(len, offsets.values())) == len(found)
    return found
