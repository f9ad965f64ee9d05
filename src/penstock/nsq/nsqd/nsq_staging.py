"""NSQ's staged messages: read when they are staged, stamped when they are committed."""

from __future__ import annotations

from typing import Final

from penstock.broker.publish.commit import BatchPlace, Stamp, unplaced
from penstock.broker.topic import Topic
from penstock.core.names import is_valid_name
from penstock.node.dialect import StagingError
from penstock.node.registry import Registry
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import BODY_AT
from penstock.nsq.protocol.limits import Limits
from penstock.nsq.protocol.staged import read_staged
from penstock.nsq.protocol.stamps import stamp
from penstock.storage.batch import Batch
from penstock.storage.batch import Dialect as FrameKind


class NsqStaging:
    """Messages with a delay each, as ``protocol.staged`` has them."""

    dialect: Final = "nsq"
    frames: Final = FrameKind.NSQ

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits

    async def topic(self, name: str) -> Topic:
        if not is_valid_name(name):
            raise StagingError("INVALID_TOPIC")
        topic = self._registry.topic(name)
        if topic.ephemeral:  # its messages outlive nothing
            raise StagingError("TOPIC_IS_EPHEMERAL")
        return topic

    def read(self, topic: Topic, body: bytes) -> list[Batch]:
        limits = self._limits
        try:
            runs = read_staged(body, limits.max_msg_size, limits.max_req_timeout)
        except ProtocolError as error:
            raise StagingError(error.code, error.text) from None
        return [unplaced(*run) for run in runs]

    def stamp(self, topic: Topic) -> Stamp:
        return stamped


def stamped(batch: Batch, spot: BatchPlace) -> int:
    """Write ids and times into the frames of a batch; the bytes of their bodies."""
    stamp(batch.frames, batch.stride or batch.positions()[:-1], spot.first_id, spot.timestamp_ns)
    return len(batch.frames) - batch.count * BODY_AT
