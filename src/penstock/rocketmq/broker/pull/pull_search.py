"""The search of a queue for a pull, and the answer with what it found (RocketMQ spec 2.2, 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import properties_text
from penstock.storage.batch import Buffer

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

COMMIT_OFFSET: Final = 1
"""Bit of a pull's sysFlag: the request commits an offset."""
TAKEN_AGAIN: Final = 1 << 30
"""Bit of a pull's flag, which no client sets: it has waited, and has committed what it commits."""
# Java reads 16,000 bytes of its consume queue, 20 for each message (RocketMQ spec 4.3).
SCAN_MAX: Final = 800
"""Messages that one request looks at when few or none of them are wanted."""
# Always the master. Java sends consumers that are far behind to a slave, to spare its memory
# (RocketMQ spec 7.4); ours reads old messages from the log as it reads new ones.
_MASTER: Final = "0"
_LONG_MAX: Final = (1 << 63) - 1


class PullHeader(Struct, frozen=True, gc=False):
    """The fields of a pull."""

    group: str
    topic: str
    queue: int
    offset: int
    messages_max: int
    sys_flag: int
    commit_offset: int
    suspend_ms: int
    subscription: str
    kind: str | None
    version: int
    nbytes: int | None

    @classmethod
    def of(cls, request: Command) -> PullHeader:
        """Parse the fields of a pull. Raises BodyError if one is missing or no number of 64 bits:
        a larger offset would stay among those of its group.
        """
        ext = request.ext
        if ext is None:
            raise BodyError("a pull without fields")
        get = ext.get
        try:
            header = cls(
                ext["consumerGroup"],
                ext["topic"],
                int(ext["queueId"]),
                int(ext["queueOffset"]),
                int(ext["maxMsgNums"]),
                int(ext["sysFlag"]),
                int(get("commitOffset") or 0),
                int(get("suspendTimeoutMillis") or 0),
                get("subscription") or "",
                get("expressionType") or None,
                int(get("subVersion") or 0),
                int(get("maxMsgBytes") or 0) or None,
            )
        except KeyError as error:
            raise BodyError(f"the field {error.args[0]} is missing") from None
        except ValueError as error:
            raise BodyError(f"a field of the pull is not a number: {error}") from None
        if max(header.offset, header.commit_offset, header.suspend_ms) > _LONG_MAX:
            raise BodyError("a number of the pull has more than 64 bits")
        return header


class Pulled(Struct, frozen=True, gc=False):
    """The result of a pull: the answer's code and words, offsets, messages back to back."""

    code: ResponseCode
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    pieces: tuple[Buffer, ...] | list[Buffer] = ()
    messages: int = 0
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class PullSearch:
    """Searches for pulls."""

    settings: BrokerSettings
    stats: Stats
    store: MessageStore

    def find(self, header: PullHeader, subscription: Subscription) -> Pulled:
        """Search the queue for this pull. Raises StorageError."""
        low, high = bounds = self.store.bounds(header.topic, header.queue)
        # RocketMQ spec 4.3: each row of the table in which the queue has no message for it.
        if not low <= header.offset < high:
            return _nothing(header.offset, low, high, is_slave=self.settings.is_slave)
        settings = self.settings
        # One message at least, whatever was asked for, as in Java (RocketMQ spec 4.3).
        count = max(1, min(header.messages_max, settings.max_transfer_count_on_message_in_memory))
        room = settings.max_transfer_bytes_on_message_in_memory
        if header.nbytes:
            room = min(room, header.nbytes)
        began_ns = self.stats.get_begins()
        if subscription.wants_all:
            pulled = self._all(header, bounds, count, room)
        else:
            pulled = self._matching(header, subscription, bounds, count, room)
        if began_ns and pulled.messages:
            self.stats.get_ends(header.topic, header.group, began_ns)
        return pulled

    def _all(self, header: PullHeader, bounds: tuple[int, int], count: int, room: int) -> Pulled:
        """The messages as they come, whole slices where they fit."""
        store, topic = self.store, header.topic
        pieces: list[Buffer] = []
        nbytes, next_offset = 0, header.offset
        found = 0
        for part in store.slices(topic, header.queue, header.offset, count):
            piece, messages = store.piece(topic, part), part.next - part.first
            nbytes += len(piece)
            if nbytes <= room:
                pieces.append(piece)
                found += messages
                next_offset = part.queue_offset + messages
                continue
            nbytes -= len(piece)
            for number, frame in enumerate(store.frames(topic, part)):
                # The first one goes whatever its size, or the consumer would never get past it.
                if pieces and nbytes + len(frame) > room:
                    break
                pieces.append(frame)
                nbytes += len(frame)
                found += 1
                next_offset = part.queue_offset + number + 1
            break
        if not found:  # damaged, or let go while we looked
            next_offset = min(header.offset + count, bounds[1])
            return Pulled(
                ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING", next_offset, *bounds
            )
        return Pulled(ResponseCode.SUCCESS, "FOUND", next_offset, *bounds, pieces, found, nbytes)

    def _matching(
        self,
        header: PullHeader,
        subscription: Subscription,
        bounds: tuple[int, int],
        count: int,
        room: int,
    ) -> Pulled:
        """The messages that the subscription wants, among the next ``SCAN_MAX``."""
        store, topic = self.store, header.topic
        pieces: list[Buffer] = []
        nbytes = 0
        next_offset = min(header.offset + SCAN_MAX, bounds[1])
        for part in store.slices(topic, header.queue, header.offset, SCAN_MAX):
            for number, frame in enumerate(store.frames(topic, part)):
                if not subscription.matches(properties_text(frame)):
                    continue
                # Not when it is full, but at the first wanted message without room: the client is
                # past what the filter drops before that.
                if pieces and (len(pieces) >= count or nbytes + len(frame) > room):
                    next_offset = part.queue_offset + number
                    return Pulled(
                        ResponseCode.SUCCESS,
                        "FOUND",
                        next_offset,
                        *bounds,
                        pieces,
                        len(pieces),
                        nbytes,
                    )
                pieces.append(frame)
                nbytes += len(frame)
        if not pieces:
            return Pulled(
                ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", next_offset, *bounds
            )
        return Pulled(
            ResponseCode.SUCCESS, "FOUND", next_offset, *bounds, pieces, len(pieces), nbytes
        )

    def respond(
        self, connection: Connection, request: Command, header: PullHeader, pulled: Pulled
    ) -> None:
        """Send what was found.

        It is copied together: a slice would keep the block alive that it is of until it has left,
        and a write of many small slices costs more than that.
        """
        if request.is_one_way:
            return
        if pulled.messages:
            self.stats.got(header.topic, header.group, pulled.messages, pulled.nbytes)
        else:
            self.stats.missed()
        ext = {
            "suggestWhichBrokerId": _MASTER,
            "nextBeginOffset": str(pulled.next_offset),
            "minOffset": str(pulled.min_offset),
            "maxOffset": str(pulled.max_offset),
        }
        answer = request.answer(pulled.code, pulled.remark, ext=ext)
        head = frames.encode_head(answer, pulled.nbytes)
        connection.send_large((b"".join((head, *pulled.pieces)),), pulled.nbytes)


def _nothing(offset: int, low: int, high: int, *, is_slave: bool) -> Pulled:
    """The answer to a pull from where there is no message."""
    # Of a slave: what its master has given is on its way here. Java's consumers would go back.
    if is_slave and offset > high:
        return Pulled(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, low, high)
    # The queue never had a message (RocketMQ spec 4.3, the first rows of its table).
    if high == 0:
        code = ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
        return Pulled(code, "NO_MESSAGE_IN_QUEUE", 0, 0, 0)
    if offset < low:
        return Pulled(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", low, low, high)
    # Held in a long poll, if the client wants that: it is where the next message will be.
    if offset == high:
        return Pulled(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, low, high)
    return Pulled(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", high, low, high)
