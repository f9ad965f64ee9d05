"""The dialects that a broker can read: here they meet, as neither knows the other.

The code of one is loaded when a message of it is met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker import dialects
from penstock.storage.batch import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.dialects import Reader, Writer
    from penstock.broker.publish.records import Records
    from penstock.storage.queues.queue_rebuild import Stated


def register_dialects() -> None:
    """Let topics hold messages of every dialect."""
    dialects.register_reader(Dialect.NSQ, _nsq_reader)
    dialects.register_reader(Dialect.ROCKETMQ, _rocketmq_reader)
    dialects.register_stated(Dialect.ROCKETMQ, _rocketmq_stated)
    dialects.register_nsq_writer(_nsq_writer)


def _nsq_reader() -> Reader:
    from penstock.nsq.protocol.translation import bodies

    return bodies


def _rocketmq_reader() -> Reader:
    from penstock.rocketmq.protocol.bodies import bodies

    return bodies


def _rocketmq_stated() -> Stated:
    from penstock.rocketmq.protocol.bodies import queue_offset

    return queue_offset


def _nsq_writer() -> Writer:
    from penstock.nsq.protocol.translation import batch_of

    return batch_of


def nsq_letters(frames: Sequence[memoryview], note: bytes) -> Records:
    """``penstock.nsq.protocol.dead_letters``, for the node of a broker without NSQ's ports."""
    from penstock.nsq.protocol.dead_letters import DeadLetterFrames

    return DeadLetterFrames(frames, note)
