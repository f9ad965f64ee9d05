"""Pulls: the request for messages of a queue, and what its answer says (RocketMQ spec 4.3)."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.received import Received, all_received
from penstock.rocketmq.client.errors import BadAnswer, NotConnected, no_broker, refusal
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.routes import MASTER
from penstock.rocketmq.protocol import requests
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.requests import COMMIT, SUBSCRIPTION, SUSPEND


class PullStatus(Enum):
    """Outcomes of a pull, with the codes of their answers."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


_STATUSES: Final = {int(status.value): status for status in PullStatus}


class Pulled(NamedTuple):
    """The yield of a pull; the next one begins at ``next_offset``."""

    status: PullStatus
    messages: list[Received]
    next_offset: int
    min_offset: int
    max_offset: int


class Puller:
    """A group's puller; a broker that has much to do may send it to a replica."""

    def __init__(self, hub: Hub, group: str) -> None:
        self._hub = hub
        self._group = group
        self._replicas: dict[MessageQueue, int] = {}

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wanted: Filter,
        *,
        most: int,
        suspend_s: float = 0.0,
        timeout_s: float,
        commit: int = 0,
    ) -> Pulled:
        """Pull once; the broker may wait ``suspend_s`` seconds for something to come.

        Raises ClientError.
        """
        hub = self._hub
        if queue.brokerName not in hub.routes.brokers:
            await hub.routes.of(queue.topic)
        number = self._replicas.get(queue, MASTER)
        address = hub.routes.reader(queue.brokerName, number)
        if address is None:
            raise no_broker(queue.brokerName)
        is_master = number == MASTER
        flag = SUBSCRIPTION | (SUSPEND if suspend_s else 0)
        # Only the master keeps offsets; a slave gets them from it (RocketMQ spec 7.4).
        if commit > 0 and is_master:
            flag |= COMMIT
        request = requests.pull(
            self._group,
            queue,
            offset,
            most,
            sys_flag=flag,
            commit=max(0, commit),
            suspend_ms=int(suspend_s * SECOND) // MILLISECOND,
            expression=wanted.text,
            kind=wanted.kind,
        )
        try:
            answer = await hub.ask(address, *request, seconds=timeout_s)
        except NotConnected:
            self._replicas.pop(queue, None)  # the master may be there when its replica is not
            raise
        status = _STATUSES.get(answer.code)
        if status is None:
            self._replicas.pop(queue, None)
            subject = f"group {self._group}, topic {queue.topic}"
            raise refusal(address, answer.code, answer.remark, subject)
        return self._read(answer, status, queue, address, wanted, offset)

    def _read(
        self,
        answer: Command,
        status: PullStatus,
        queue: MessageQueue,
        address: str,
        wanted: Filter,
        offset: int,
    ) -> Pulled:
        try:
            # Heeded from answer to answer, so a master that has caught up gets its consumers back.
            self._replicas[queue] = answer.int32("suggestWhichBrokerId", MASTER)
            next_offset = answer.int64("nextBeginOffset")
            first, end = answer.int64("minOffset"), answer.int64("maxOffset")
        except BodyError as error:
            raise BadAnswer(f"{address}: {error} in the answer to a pull") from None
        messages: list[Received] = []
        if status is PullStatus.FOUND:
            found = all_received(answer.body, queue.brokerName, self._hub.config.namespace, offset)
            # The broker compares hashes of tags, the client the texts (RocketMQ spec 4.13).
            messages = wanted.chosen(found)
        return Pulled(status, messages, next_offset, first, end)
