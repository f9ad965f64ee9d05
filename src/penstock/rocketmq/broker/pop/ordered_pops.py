"""Groups that pop in order (RocketMQ spec 2.7): of each queue one batch at a time.

How far such a group is are its committed offsets, as with pulling; no channel is behind it. A
request that finds nothing waits until a message comes, a batch is acknowledged, or its time is
over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import PenstockError, StorageError
from penstock.core.log_limit import LogLimit
from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop.pop_channel import Popped
from penstock.rocketmq.broker.pop.pop_orders import FILE, OPEN_MAX, Key, OpenBatch, OrderTable
from penstock.rocketmq.broker.pull.arrivals import Arrivals
from penstock.rocketmq.broker.pull.offsets_api import YOUNG_BYTES_MAX
from penstock.rocketmq.broker.pull.pull_search import SCAN_MAX
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.messages.message import properties_text
from penstock.rocketmq.protocol.pop_info import (
    IN_ORDER,
    QueueCounts,
    message_offset_info,
    order_count_info,
    start_offset_info,
)

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.protocol.command import Command
    from penstock.rocketmq.remoting import Connection
    from penstock.storage.batch import Batch, Buffer

OLD_SCAN_S: Final = 600.0
_TIMER_S_MAX: Final = 60.0
"""The wall clock may be set; therefore a long wait is looked after from time to time."""

logger = logging.getLogger("penstock.mqbroker")


class OrderedRequest:
    """A request to pop in order, and what was found for it. Times in ms."""

    def __init__(
        self,
        connection: Connection,
        request: Command,
        key: Key,
        count: int,
        invisible_ms: int,
        subscription: Subscription,
    ) -> None:
        self.connection = connection
        self.request = request
        self.key = key
        self.count = count
        self.invisible_ms = invisible_ms
        self.subscription = subscription
        self.queue = request.int32("queueId")
        self.attempt = request.optional("attemptId") or None
        self.timer: asyncio.Handle | None = None
        self.begin(0)

    def begin(self, now_ms: int) -> None:
        """Begin a search at this time, with nothing found yet."""
        self.pop_ms = now_ms
        self.rest = 0
        self.nbytes = 0
        self.pieces: list[Buffer] = []
        self.offsets: dict[int, list[int]] = {}
        self.counts: list[QueueCounts] = []
        self.unread: set[int] = set()

    @property
    def room(self) -> int:
        return self.count - len(self.pieces)

    def wants(self, queue: int) -> bool:
        return self.queue < 0 or self.queue == queue

    def cancel(self) -> None:
        """Nobody wants an answer any more."""
        if self.timer is not None:
            self.timer.cancel()

    def fields(self) -> dict[str, str]:
        found = {
            "popTime": str(self.pop_ms),
            "invisibleTime": str(self.invisible_ms),
            "reviveQid": str(IN_ORDER),
            "restNum": str(self.rest),
            "startOffsetInfo": start_offset_info(self.offsets),
            "msgOffsetInfo": message_offset_info(self.offsets),
        }
        if self.counts:
            found["orderCountInfo"] = order_count_info(self.counts)
        return found


class OrderedPops:
    """All groups that pop in order, and their requests that wait."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        stats: Stats,
        store: MessageStore,
        files: StateFiles,
        arrivals: Arrivals,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._stats = stats
        self._store = store
        self._files = files
        self._arrivals = arrivals
        self._clock = clock
        self.table = OrderTable()
        self._waiting: dict[Key, dict[OrderedRequest, None]] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._ready: dict[Key, set[int]] = {}  # to be looked at in a moment
        self._turn = 0
        self._log_limit = LogLimit()

    def __len__(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._waiting.values()))

    def waiting(self, key: Key) -> int:
        return len(self._waiting.get(key, ()))

    # --- requests ------------------------------------------------------------------------------

    def enter(self, key: Key, queues: int, *, from_end: bool) -> None:
        """A group pops a topic in order from now on: from where it has committed to, else where a
        new group begins (RocketMQ spec 4.4). Raises BodyError when there are too many of them.

        A batch below that is done: a crash came between the writes of the two files.
        """
        self.table.enter(key)
        for queue in range(queues):
            committed, high = self._offsets.query(*key, queue), self._high(key, queue)
            if committed is None:
                # Committed at once, so that the group's start stays what it was when it first
                # popped.
                self._offsets.commit(*key, queue, self._start(key[0], queue, from_end))
                continue
            batch = self.table.find(key, queue)
            if batch is not None and batch.offsets[-1] < committed:
                self.table.clear(key, queue)
            if committed > high:  # somebody has set it so; there is no such place
                # Else nothing would come until the queue has grown that far.
                self._offsets.commit(*key, queue, high)

    def _start(self, topic: str, queue: int, from_end: bool) -> int:
        low, high = self._store.bounds(topic, queue)
        found = self._store.topics.get(topic)
        is_young = not low and (found is None or found.log.nbytes <= YOUNG_BYTES_MAX)
        return high if from_end and not is_young else low

    def pop(self, request: OrderedRequest, queues: int) -> bool:
        """Answer a request if there is something for it, of the first ``queues`` queues.

        Raises RefusedError when too many batches are out, StorageError.
        """
        wanted: Sequence[int] = (request.queue,)
        if request.queue < 0:
            # Another queue is first each time: a request takes all that it may from the first one
            # with messages.
            self._turn += 1
            wanted = [(self._turn + queue) % queues for queue in range(queues)]
        # Each stays until it is acknowledged, in memory and in the file.
        if len(self.table) >= OPEN_MAX:
            remark = f"{OPEN_MAX} batches popped in order are not acknowledged"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, remark)
        return self._serve(request, wanted)

    def wait(self, request: OrderedRequest, poll_ms: int) -> None:
        """Answer a request when there is something, or after ``poll_ms``."""
        loop = asyncio.get_running_loop()
        if poll_ms:
            request.timer = loop.call_later(poll_ms / 1000, self._expire, request)
        else:
            request.timer = loop.call_soon(self._expire, request)
        self._waiting.setdefault(request.key, {})[request] = None
        self._look(request.key, request.unread)
        self._set_timer(request.key)

    def refuse(self, request: OrderedRequest, code: ResponseCode) -> None:
        self._stats.missed()
        # Refused without a search, it has no time of popping, and clients read the field.
        request.pop_ms = request.pop_ms or wall_ms(self._clock)
        answer = request.request.answer(code, "NO_MESSAGE_IN_QUEUE", ext=request.fields())
        request.connection.send(answer)

    def _expire(self, request: OrderedRequest) -> None:
        self._give_up(request)
        self.refuse(request, ResponseCode.POLLING_TIMEOUT)

    def _give_up(self, request: OrderedRequest) -> None:
        request.cancel()
        waiting = self._waiting.get(request.key, {})
        waiting.pop(request, None)
        if not waiting:
            self._waiting.pop(request.key, None)
            timer = self._timers.pop(request.key, None)
            if timer is not None:
                timer.cancel()

    def forget(self, connection: Connection) -> None:
        """A connection is gone, and its requests with it."""
        for waiting in list(self._waiting.values()):
            for request in [each for each in waiting if each.connection is connection]:
                self._give_up(request)

    def forget_group(self, group: str) -> None:
        """Forget a deleted group. Written down at once; raises StorageError."""
        self.table.forget_group(group)
        self._files.save(FILE)

    def deleted(self, topic: str) -> None:
        """A topic is gone. Written down at once; raises StorageError."""
        self.table.forget_topic(topic)
        for key in [key for key in self._waiting if key[0] == topic]:
            for request in list(self._waiting[key]):
                self._expire(request)
        self._files.save(FILE)

    # --- when to look again --------------------------------------------------------------------

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Look again for those who wait for the queues that have grown."""
        if self._waiting:
            queues = {batch.queue for batch in batches}
            for key in [key for key in self._waiting if key[0] == topic]:
                self._look(key, queues)

    def _look(self, key: Key, queues: Collection[int]) -> None:
        """Serve those who wait in a moment, since we may be within something else."""
        if key in self._waiting and queues:
            if not self._ready:
                asyncio.get_running_loop().call_soon(self._serve_ready)
            self._ready.setdefault(key, set()).update(queues)

    def _serve_ready(self) -> None:
        ready, self._ready = self._ready, {}
        for key, queues in ready.items():
            for queue in queues:
                try:
                    self._serve_queue(key, queue)
                except PenstockError as error:
                    self._tell(
                        "the group %s waits to pop queue %d of %s in vain: %s",
                        key[1],
                        queue,
                        key[0],
                        error,
                    )
            self._set_timer(key)

    def _serve_queue(self, key: Key, queue: int) -> None:
        config, group = self._topics.get(key[0]), self._groups.get(key[1])
        if not permissions.may_consume(self._settings, config, group):
            for request in list(self._waiting.get(key, ())):
                self._give_up(request)
                # From the start: the answer is then the refusal that it would get now.
                request.connection.take_again(request.request)
        for request in list(self._waiting.get(key, ())):
            # A request before this one may have taken the batch: of each queue one is out at a
            # time.
            if not self.has_messages(key, queue):
                return
            if request.wants(queue) and self._serve(request, (queue,)):
                self._give_up(request)
            else:
                self._look(key, request.unread)

    def _set_timer(self, key: Key) -> None:
        """Look again when the next batch's time is over, if somebody waits for it."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        now_ms = wall_ms(self._clock)
        free_ms = self.table.free_ms(key, now_ms) if key in self._waiting else None
        if free_ms is not None:
            seconds = min(_TIMER_S_MAX, (free_ms - now_ms) / 1000)
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(seconds, self._time_over, key)

    def _time_over(self, key: Key) -> None:
        del self._timers[key]
        self._look(key, self.table.queues(key))

    # --- batches -------------------------------------------------------------------------------

    def has_messages(self, key: Key, queue: int, attempt: str | None = None) -> bool:
        """True if a group could have messages of a queue now."""
        committed = self._offsets.query(*key, queue) or 0
        is_free = self.table.may_pop(key, queue, wall_ms(self._clock), attempt)
        return is_free and committed < self._high(key, queue)

    def _high(self, key: Key, queue: int) -> int:
        return self._store.bounds(key[0], queue)[1]

    def _serve(self, request: OrderedRequest, queues: Iterable[int]) -> bool:
        """Answer a request from these queues; True if there were messages. Raises StorageError if
        there were none, and a queue could not be read.
        """
        request.begin(wall_ms(self._clock))
        topic, group = request.key
        failure: StorageError | None = None
        for queue in queues:
            try:
                self._take(request, queue)
            except StorageError as error:  # what the others gave is out, and has to be answered
                failure = error
        if not request.pieces:
            if failure is not None:
                raise failure
            return False
        if failure is not None:
            self._tell("the group %s cannot pop every queue of %s: %s", group, topic, failure)
        self._stats.got(topic, group, len(request.pieces), request.nbytes)
        answer = request.request.answer(0, "FOUND", ext=request.fields())
        head = frames.encode_head(answer, request.nbytes)
        request.connection.send_large((head, *request.pieces), request.nbytes)
        return True

    def _tell(self, text: str, *details: object) -> None:
        """Log a queue that cannot be read, which each pop and each message may find again."""
        if self._log_limit.take_line(self._clock.monotonic_ns()):
            logger.error(f"{text}%s", *details, self._log_limit.told_kept_back())

    def _take(self, request: OrderedRequest, queue: int) -> None:
        """Let a request have a batch of a queue, if there is room and no other batch is out."""
        key, offsets = request.key, self._offsets
        if not self.has_messages(key, queue, request.attempt):
            return
        low, high = self._store.bounds(key[0], queue)
        # Retention may have taken what the group had still to read.
        start = next_offset = max(low, offsets.query(*key, queue) or 0)
        if request.room > 0:
            found, next_offset = self._read(request, queue, start, high)
            if found:
                batch = OpenBatch(
                    [each for each, _ in found],
                    request.pop_ms,
                    request.invisible_ms,
                    request.attempt,
                )
                request.counts.append(self.table.put(key, queue, batch))
                request.offsets[queue] = batch.offsets
                request.pieces += [frame for _, frame in found]
                request.nbytes += sum(len(frame) for _, frame in found)
            else:
                start = next_offset
            # What retention took or the filter left out is behind the group; the batch itself is
            # not.
            if offsets.query(*key, queue) != start:
                offsets.commit(*key, queue, start)
            if not found and next_offset < high:  # nothing that it wants so far
                request.unread.add(queue)
        # RocketMQ spec 2.7, restNum: what the queue still has behind this batch.
        request.rest += high - next_offset

    def _read(
        self, request: OrderedRequest, queue: int, start: int, high: int
    ) -> tuple[list[tuple[int, Buffer]], int]:
        """The messages that a request wants, by queue offset, and where the queue's rest begins."""
        store, topic = self._store, request.key[0]
        wanted = request.subscription
        room = self._settings.max_transfer_bytes_on_message_in_memory - request.nbytes
        scanned = request.room if wanted.wants_all else SCAN_MAX
        found: list[tuple[int, Buffer]] = []
        for part in store.slices(topic, queue, start, scanned):
            for offset, frame in enumerate(store.frames(topic, part), part.queue_offset):
                if not (wanted.wants_all or wanted.matches(properties_text(frame))):
                    continue
                # The first message of an answer goes whatever its size; after that they have to
                # fit.
                is_full = len(found) >= request.room or len(frame) > room
                if is_full and (found or request.pieces):
                    return found, offset
                found.append((offset, frame))
                room -= len(frame)
        return found, min(start + scanned, high)

    # --- what becomes of them ------------------------------------------------------------------

    def finish(self, key: Key, queue: int, offsets: Sequence[int], pop_ms: int) -> list[int]:
        """Acknowledge queue offsets; those that are not of the batch are returned."""
        committed = self._offsets.query(*key, queue) or 0
        # Below is done: an acknowledgement that comes twice is not an error.
        new = [offset for offset in offsets if offset >= committed]
        found = self.table.finish(key, queue, new, pop_ms) if new else None
        if found is None:
            return []
        # Only what is done from the start on moves the group: a gap waits for its message.
        if found.next_offset > committed:
            self._offsets.commit(*key, queue, found.next_offset)
        self._freed(key, queue)
        return found.strangers

    def hide(self, key: Key, queue: int, offset: int, pop_ms: int, visible_ms: int) -> None:
        """Let a message be visible from another time on."""
        committed = self._offsets.query(*key, queue) or 0
        if offset >= committed and self.table.hide(key, queue, offset, pop_ms, visible_ms):
            self._freed(key, queue)
            self._set_timer(key)

    def moved(self, key: Key, queue: int) -> None:
        """Somebody has set the offset of a group: what it has of the queue counts no more."""
        if self.table.clear(key, queue):
            self._freed(key, queue)

    def _freed(self, key: Key, queue: int) -> None:
        if self.table.may_pop(key, queue, wall_ms(self._clock)):
            self._look(key, (queue,))
            # Whoever waits with NOTIFICATION looks, too, as no message will come to wake it.
            self._arrivals.wake(key[0])

    def forget_old(self) -> None:
        """Drop the batches that nobody has asked for since long."""
        self.table.forget_old(wall_ms(self._clock))

    def peek(self, key: Key, queues: int, count: int) -> tuple[list[Popped], int]:
        """A group's next messages in queues that are not blocked, and the number behind them.

        Raises StorageError.
        """
        store, rest = self._store, 0
        found: list[Popped] = []
        for queue in filter(lambda each: self.has_messages(key, each), range(queues)):
            low, high = store.bounds(key[0], queue)
            start = max(low, self._offsets.query(*key, queue) or 0)
            room = count - len(found)
            for part in store.slices(key[0], queue, start, room):
                for number, frame in enumerate(store.frames(key[0], part)):
                    place = part.queue_offset + number
                    found.append(Popped(part.first + number, queue, place, 1, frame))
            rest += high - min(high, start + room)
        return found, rest
