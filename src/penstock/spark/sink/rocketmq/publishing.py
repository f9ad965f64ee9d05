"""Sending at least once: rows go in batches to their topics' queues, by turns or by key."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import MILLISECOND
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.spark.access import why
from penstock.spark.errors import SinkError
from penstock.spark.nodes.directory import LastAnswer
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.routes import Routes
from penstock.spark.sink.idle import Idle
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.request_bodies import batch_of
from penstock.spark.sink.rocketmq.queues import (
    NEW_TOPIC_QUEUES,
    NoQueuesError,
    Queue,
    Queues,
    queue_numbered,
)
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import RocketmqSinkSettings
from penstock.spark.sink.rocketmq.rows import ANY_QUEUE, Key, RocketmqRows
from penstock.spark.sink.sending import RetryTime, send_rows

# Of this process: a Python worker of Spark serves many tasks, for some of which name servers may be
# silent.
_routes: dict[tuple[str, ...], dict[str, LastAnswer[Any]]] = {}
# The message is stored in each of these; the others say that a copy or a sync is late.
_STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
# Another broker, or the same one later, may take them.
_ELSEWHERE: Final = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
)


def publish_rows(
    batches: Iterable[pa.RecordBatch], reader: RocketmqRows, settings: RocketmqSinkSettings
) -> int:
    """Publish all rows of a partition; their number. Raises SinkError or SourceError."""
    directory = settings.directory()
    access = directory.access
    assert isinstance(access, BrokerAccess)
    queues = Queues(Routes(directory, _routes.setdefault(directory.namesrv, {})))
    with closing(queues), Idle(access.link) as links:
        publisher = Publisher(settings, reader.partition, queues, links)
        rows = (each for some in batches for each in reader.read(some))
        return send_rows(rows, publisher.publish, settings)


class Publisher:
    """A sender to the queues by turns, or to that of a key; for several threads."""

    def __init__(
        self,
        settings: RocketmqSinkSettings,
        partition: int,
        queues: Queues,
        links: Idle[RemotingLink],
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._queues = queues
        self._links = links
        self._turn = SystemChance().below(1 << 16)

    def publish(self, key: Key, piece: Piece) -> int:
        """Publish messages; their number. A broker that fails is followed by the next, but for
        those with a key or a queue, which stay where they belong.

        Raises SinkError for a refusal and when nobody has taken them for ``timeout``.
        """
        patience = RetryTime(self._settings.timeout_s)
        done = 0
        while True:
            failures: dict[str, str] = {}
            try:
                choice = self._choice(key)
            except NoQueuesError as error:
                # A broker that starts again is not in routes for a while.
                choice, failures["name server"] = [], str(error)
            for queue in choice:
                try:
                    return done + self._at(queue, key, piece)
                except _ElsewhereError as error:
                    failures[queue.address] = str(error)
                    if error.left.count < piece.count:
                        done += piece.count - error.left.count
                        piece = error.left
                        patience.renew()
                except OSError as error:
                    failures[queue.address] = why(error)
            if not patience.pause():
                raise patience.nobody("broker", key.topic, piece.where(self._partition), failures)
            self._queues.forget(key.topic)

    def _choice(self, key: Key) -> list[Queue]:
        """The queues to try: the one of a key, or one of each broker. Raises SinkError."""
        queues = self._queues.of(key.topic)
        if key.queue is not None:
            return [queue_numbered(key.queue, queues, key.topic)]
        if key.shard != ANY_QUEUE:
            return [queues[key.shard % len(queues)]]
        self._turn += 1
        first = self._turn % len(queues)
        turned = [*queues[first:], *queues[:first]]
        return list({queue.address: queue for queue in reversed(turned)}.values())[::-1]

    def _at(self, queue: Queue, key: Key, piece: Piece) -> int:
        with self._links.to(queue.address) as link:
            if piece.count == 1 or key.level:
                answers = link.ask_all(
                    [self._single(queue, key, piece, index) for index in range(piece.count)]
                )
            else:
                answers = [link.ask(*self._batch(queue, key, piece))]
        wrong = [row for row, answer in enumerate(answers) if answer.code not in _STORED]
        if not wrong:
            return piece.count
        # Of messages that went one by one those that are stored must not go again.
        left = piece.take(np.array(wrong)) if len(wrong) < len(answers) else piece
        return piece.count - left.count + self._refused(answers[wrong[0]], queue, key, left)

    def _refused(self, answer: Command, queue: Queue, key: Key, piece: Piece) -> int:
        said = answer.remark or f"code {answer.code}"
        if answer.code in _ELSEWHERE:
            raise _ElsewhereError(said, piece)
        if answer.code == ResponseCode.MESSAGE_ILLEGAL and piece.count > 1:
            return sum(self.publish(key, half) for half in piece.halves())
        size = int(piece.sizes().max())
        where = piece.where(self._partition)
        raise SinkError(f"{where} ({size} bytes): refused by broker {queue.address}: {said}")

    def _batch(self, queue: Queue, key: Key, piece: Piece) -> tuple[int, dict[str, object], bytes]:
        return RequestCode.SEND_BATCH_MESSAGE, self._fields(queue, key, "", "true"), batch_of(piece)

    def _single(
        self, queue: Queue, key: Key, piece: Piece, index: int
    ) -> tuple[int, dict[str, object], bytes]:
        assert piece.properties is not None
        text = piece.properties[index].as_py().decode()
        fields = self._fields(queue, key, text, "false")
        return RequestCode.SEND_MESSAGE_V2, fields, piece.bodies[index].as_py()

    def _fields(self, queue: Queue, key: Key, text: str, batch: str) -> dict[str, object]:
        """The short names of SEND_MESSAGE_V2's header (RocketMQ spec 2.1)."""
        return {
            "a": self._settings.producer_group, "b": key.topic, "c": "TBW102",
            "d": NEW_TOPIC_QUEUES, "e": queue.queue, "f": 0,
            "g": SYSTEM_CLOCK.wall_ns() // MILLISECOND, "h": 0, "i": text, "j": 0, "k": "false",
            "m": batch,
        }  # fmt: skip


class _ElsewhereError(Exception):
    """A broker does not take messages now, those that are ``left``; another may."""

    def __init__(self, said: str, left: Piece) -> None:
        super().__init__(said)
        self.left = left
