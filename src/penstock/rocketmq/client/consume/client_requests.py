"""Requests of administrators to a consumer, through its broker: to say its offsets and what it
does, to go elsewhere, and to handle one message at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.core.units import MILLISECOND
from penstock.rocketmq.client.consume.consuming import Consumption, RetryLater
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import decode

_NO_HANDLER: Final = "this consumer has no handler yet"


class ClientRequests:
    """The answers of one consumer to requests of brokers."""

    def __init__(self, core: Consumption) -> None:
        self.handler: Callable[[list[Received]], Any] | None = None
        self._core = core
        self._hub = core.hub
        self._started_ms = core.hub.now_ms
        serves = core.hub.serves
        serves[RequestCode.RESET_CONSUMER_CLIENT_OFFSET] = self._reset
        serves[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = self._status
        serves[RequestCode.GET_CONSUMER_RUNNING_INFO] = self._running
        serves[RequestCode.CONSUME_MESSAGE_DIRECTLY] = self._consume

    def _reset(self, wire: Wire, request: Command) -> None:
        """Go on at other offsets, and let the broker know."""
        for queue, offset in _offsets(request.body).items():
            held = self._core.held.get(queue)
            if held is not None:
                tell(
                    logging.INFO,
                    "offset-reset",
                    f"reset offset of {queue} to {offset}",
                    address=wire.address,
                    group=self._core.name,
                )
                self._core.seek(held, offset)
        self._hub.spawn(self._core.commit(), "commit")

    def _status(self, _: Wire, request: Command) -> Command:
        topic = request.text("topic")
        table = {
            queue: held.commit_offset
            for queue, held in self._core.held.items()
            if queue.topic == topic
        }
        body = {"consumerTable": {}, "messageQueueTable": table}
        return request.answer(body=fastjson.dumps(body))

    def _running(self, _: Wire, request: Command) -> Command:
        """The page ``consumerStatus`` of mqadmin, whose rates nsqadmin and exporters read, too."""
        core, config = self._core, self._hub.config
        properties = {
            "PROP_CONSUMEORDERLY": "true" if core.kind.is_orderly else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_CONSUME_TYPE": core.kind.consume_type,
            "PROP_NAMESERVER_ADDR": ";".join(self._hub.name_servers.addresses),
            "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads),
            "PROP_CLIENT_VERSION": "V4_9_8",
            "consumeFromWhere": config.consume_from_where,
            "messageModel": config.message_model,
            "maxReconsumeTimes": str(config.max_reconsume_times),
        }
        now_ns, now_ms = self._hub.clock.monotonic_ns(), self._hub.now_ms
        table = {
            queue: {
                "cachedMsgCount": held.count,
                "cachedMsgMaxOffset": held.next_offset - 1,
                "cachedMsgMinOffset": held.commit_offset if held.count else 0,
                "cachedMsgSizeInMiB": held.nbytes >> 20,
                "commitOffset": held.commit_offset,
                "droped": held.is_dropped,
                "lastConsumeTimestamp": 0,
                "lastLockTimestamp": _wall_ms(held.locked_ns, now_ns, now_ms),
                "lastPullTimestamp": now_ms,
                "locked": held.is_locked(now_ns),
                "transactionMsgCnt": 0,
                "transactionMsgMaxOffset": 0,
                "transactionMsgMinOffset": 0,
                "tryUnlockTimes": 0,
            }
            for queue, held in core.held.items()
        }
        body = {
            "properties": properties,
            "mqTable": table,
            "statusTable": {topic: core.rates.status(topic) for topic in core.subscriptions},
            "subscriptionSet": [each.as_json() for each in core.subscriptions.values()],
        }
        return request.answer(body=fastjson.dumps(body))

    def _consume(self, wire: Wire, request: Command) -> None:
        stored, _ = decode(request.body)
        broker = request.optional("brokerName") or ""
        message = Received(stored, broker, self._hub.config.namespace)
        self._hub.spawn(self._handle(wire, request, message), "consume directly")

    async def _handle(self, wire: Wire, request: Command, message: Received) -> None:
        began = self._hub.clock.monotonic_ns()
        outcome, remark = "CR_SUCCESS", None
        try:
            if self.handler is None:
                raise BodyError(_NO_HANDLER)
            await self._hub.call(self.handler, [message])
        except RetryLater:
            outcome = "CR_LATER"
        except Exception as error:
            outcome, remark = "CR_THROW_EXCEPTION", repr(error)
        body = {
            "autoCommit": True,
            "consumeResult": outcome,
            "order": self._core.kind.is_orderly,
            "remark": remark,
            "spentTimeMills": (self._hub.clock.monotonic_ns() - began) // MILLISECOND,
        }
        if not wire.is_lost:
            wire.answer(request.answer(ResponseCode.SUCCESS, body=fastjson.dumps(body)))


def _offsets(body: bytes) -> dict[MessageQueue, int]:
    """The offsets of a reset, in the form for Java's clients or those in C++. Raises BodyError."""
    try:
        table = fastjson.loads(body).get("offsetTable") or {}
        entries = table.items() if isinstance(table, dict) else [(e, e["offset"]) for e in table]
        return {MessageQueue.from_json(dict(key)): int(offset) for key, offset in entries}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BodyError(f"no offsets to reset: {error!r}") from None


def _wall_ms(then_ns: int | None, now_ns: int, now_ms: int) -> int:
    return 0 if then_ns is None else now_ms - (now_ns - then_ns) // MILLISECOND
