"""Messages that name their delivery time, up to three days ahead: 5.x's timer messages.

See RocketMQ spec 4.6.

They wait in a system topic of one queue. What this process keeps of each is one number, its time
and its queue offset, in a heap; there is room for ``TIMERS_MAX`` of them, and more are refused.

Times come in any order, so the progress that is written down is three numbers: of the messages
below queue offset ``read`` all those due up to ``delivered_ms`` are delivered, and all below
``low``. The next start reads the topic from ``low`` on and skips what these say. As with delay
levels, a crash doubles the messages of the last moments and loses none.

A message that was sent with a delay has its deadline in the topic's steady time, which advances
evenly. One that was sent with a time of delivery, TIMER_DELIVER_MS, has an appointment: its
deadline moves when the system's time is set. After a start all are read in the system's time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.delays.due_loop import FAR, RETRY_MS, DueLoop
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.waiting_time import WaitingTime
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.levels import DelayLevels
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import Found, MessageStore
    from penstock.rocketmq.protocol.messages.message import StoredMessage
    from penstock.storage.batch import Batch

FILE: Final = "timerOffset.json"
QUEUE: Final = 0
RECALLED: Final = "TIMER_RECALLED"
"""The property of a recall: the queue offset of the message that is not to be delivered. Such a
message has no body. Messages of clients wait without the property.
"""
DELAY_MS_MAX: Final = 3 * 24 * 3600 * 1000
TIMERS_MAX: Final = 1_000_000
"""Messages that may wait at once; each takes about 50 bytes of memory."""
SLICE: Final = 64
"""Messages that are delivered before others have their turn: a few ms of work."""
SLICE_BYTES: Final = 1024 * 1024
_READ_SLICE: Final = 256
UNREADABLE_MS: Final = 10_000
"""The time until messages that the disk could not read are tried again."""
STEP_MS: Final = 1000
"""A larger difference means that the system's time was set; up to this the clocks only drift."""
_DELAYS: Final = {properties.TIMER_DELAY_SEC: 1000, properties.TIMER_DELAY_MS: 1}
"""The properties that state a delay, with their units in ms."""
_FIELDS: Final = ("low", "read", "deliveredMs")
_BLOCK_BITS: Final = 10
_OFFSET_BITS: Final = 63
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_DUE_BITS: Final = _OFFSET_BITS + 1

logger = logging.getLogger("penstock.mqbroker")


def deliver_ms(found: dict[str, str], now_ms: int) -> int | None:
    """The time at which a message wants to be delivered; None when its properties do not say.

    Raises RefusedError when the time cannot be read.
    """
    # The delivered message keeps its TIMER properties: without this it would wait once more.
    if properties.TIMER_OUT_MS in found:
        return None  # it has waited already
    for name in properties.TIMERS:
        text = found.get(name)
        if text is None:
            continue
        number = properties.number(text)
        if number is None:
            remark = f"timer message illegal, {name} is not a number: {text[:32]!r}"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        if name == properties.TIMER_DELIVER_MS:
            return number
        return now_ms + number * _DELAYS[name]
    return None


class Waiting:
    """The times of the messages that wait, and from which queue offset on there are any."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # time, queue offset, and a bit for those with an appointment
        self._aside: list[int] = []  # a heap as well
        self._blocks: dict[int, int] = {}  # messages waiting, by block of queue offsets, ascending

    def __len__(self) -> int:
        return len(self._heap) + len(self._aside)

    @property
    def next_ms(self) -> int:
        """The time at which the first one is due that is not set aside."""
        return self._heap[0] >> _DUE_BITS if self._heap else FAR

    @property
    def least_ms(self) -> int:
        """The earliest time of all."""
        return min(self.next_ms, self._aside[0] >> _DUE_BITS if self._aside else FAR)

    def low(self, read: int) -> int:
        """None below this queue offset waits; ``read`` if none waits at all."""
        return next(iter(self._blocks)) << _BLOCK_BITS if self._blocks else read

    def add(self, due_ms: int, offset: int, *, appointment: bool = False) -> None:
        """Offsets come in ascending order."""
        # One number with the time on top: it compares as a tuple of the three would, and takes a
        # third of its memory.
        heappush(self._heap, due_ms << _DUE_BITS | offset << 1 | appointment)
        block = offset >> _BLOCK_BITS
        self._blocks[block] = self._blocks.get(block, 0) + 1

    def due(self, now_ms: int, count: int) -> list[int]:
        """The queue offsets of up to ``count`` messages that are due, the earliest first."""
        taken: list[int] = []
        while len(taken) < count and self.next_ms <= now_ms:
            taken.append(heappop(self._heap))
        for entry in taken:
            heappush(self._heap, entry)  # they wait until they are delivered
        return [_offset(entry) for entry in taken]

    def remove_first(self) -> None:
        """The first one is delivered."""
        block = _offset(heappop(self._heap)) >> _BLOCK_BITS
        self._blocks[block] -= 1
        if not self._blocks[block]:
            del self._blocks[block]

    def set_first_aside(self) -> None:
        """Take the first one for not due until ``bring_back``."""
        heappush(self._aside, heappop(self._heap))

    def bring_back(self) -> None:
        """Let those that were set aside be due when their times say."""
        self._heap += self._aside
        heapify(self._heap)
        self._aside = []

    def move_appointments(self, by_ms: int) -> None:
        """Move the deadlines of appointments after the system's time was set."""
        self.bring_back()
        move = by_ms << _DUE_BITS
        self._heap = [entry + move if entry & 1 else entry for entry in self._heap]
        heapify(self._heap)


def _offset(entry: int) -> int:
    return entry >> 1 & _OFFSET_MASK


class Timers:
    """The service that delivers messages at their times."""

    def __init__(
        self,
        topics: TopicTable,
        levels: DelayLevels,
        store: MessageStore,
        files: StateFiles,
        clock: Clock,
        most: int = TIMERS_MAX,
    ) -> None:
        self._topics = topics
        self._levels = levels
        self._store = store
        self._clock = clock
        self._most = most
        self._waiting = Waiting()
        self._low = self._read = self._skip_below = self._skip_until_ms = 0
        self._taken: list[Draft] = []
        self._taken_count = 0
        self._recalled: set[int] = set()
        self._failing = False
        self._retry_ms = FAR
        self._time = WaitingTime(store, clock, names.TIMER_TOPIC)
        self._ahead_ms = 0  # lead of the system's time that appointments were placed with
        self._loop = DueLoop(
            "timer messages", clock, self._time.now_ms, self.step, lambda: files.save_aside(FILE)
        )

    def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def __len__(self) -> int:
        """The number of messages that wait. While a start is still reading, those from before it
        count little or not at all: most of that queue was delivered long ago.
        """
        _, end = self._store.bounds(names.TIMER_TOPIC, QUEUE)
        return len(self._waiting) + end - min(max(self._read, self._skip_below), end)

    def recall(self, offset: int) -> bool:
        """Do not deliver the message at this queue offset; False if that was so already."""
        is_new = offset not in self._recalled
        self._recalled.add(offset)
        return is_new

    def restore(self, offset: int) -> None:
        """Deliver the message after all: its recall could not be stored."""
        self._recalled.discard(offset)

    def diverted(self, draft: Draft, found: dict[str, str]) -> Draft:
        """The draft that waits for its time, or the draft itself when that is no more to come.

        ``found`` are its properties. Raises RefusedError when its time is too far off, or when too
        many wait.
        """
        now = wall_ms(self._clock)
        due_ms = deliver_ms(found, now)
        # A time that is over is not an error: the message is for now.
        if due_ms is None or due_ms <= now:
            return draft
        # RocketMQ spec 4.6: any time within three days.
        if due_ms - now > DELAY_MS_MAX:
            remark = (
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{DELAY_MS_MAX}ms"
            )
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        # The messages are on disk; what is bounded is the heap, which has an entry for each.
        if len(self) >= self._most:
            remark = f"{self._most} timer messages wait already, which is the most"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        found[properties.TIMER_OUT_MS] = str(due_ms)
        # A client's own must not pass for a recall of somebody's message.
        found.pop(RECALLED, None)
        release.address(draft, found)
        return release.moved(draft, names.TIMER_TOPIC, QUEUE, found)

    # --- progress ------------------------------------------------------------------------------

    def progress(self) -> dict[str, int]:
        """Everything read that still waits is due later than ``deliveredMs``."""
        return dict(zip(_FIELDS, (self._low, self._skip_below, self._skip_until_ms), strict=True))

    def load(self, value: Any) -> None:
        """Take over the progress that was kept. Raises BodyError."""
        found = [value.get(name) for name in _FIELDS] if isinstance(value, dict) else []
        numbers = [number for number in found if type(number) is int and number >= 0]
        if len(numbers) != len(_FIELDS):
            raise BodyError("timer offsets without " + ", ".join(_FIELDS))
        self._low, self._skip_below, self._skip_until_ms = numbers
        self._read = self._low

    @property
    def _is_held(self) -> bool:
        topic = self._store.topics.get(names.TIMER_TOPIC)
        return topic is None or release.HOLDER in topic.groups

    def _note_progress(self) -> None:
        delivered_ms = min(self._waiting.least_ms - 1, self._time.now_ms())
        low, self._low = self._low, self._waiting.low(self._read)
        if self._recalled and self._low > low:
            self._recalled = {each for each in self._recalled if each >= self._low}
        self._skip_below = self._read
        # In the system's time, as the messages state theirs: none that waits has an earlier one.
        self._skip_until_ms = max(0, delivered_ms + self._time.least_ahead_ms())
        self._loop.changed()
        # Its only queue: offsets agree.
        release.hold(self._store.topics.get(names.TIMER_TOPIC), self._low)

    # --- delivering ----------------------------------------------------------------------------

    def appended(self, _topic: str, _batches: Sequence[Batch]) -> None:
        """Wake for what is new."""
        self._loop.wake()

    def deleted(self, topic: str) -> None:
        """Begin again if the timer topic itself is gone."""
        if topic == names.TIMER_TOPIC:
            self._waiting = Waiting()
            self._low = self._read = self._skip_below = self._skip_until_ms = self._ahead_ms = 0
            self._taken, self._taken_count = [], 0
            self._retry_ms = FAR
            self._recalled.clear()

    async def step(self) -> int:
        """Read what is new and deliver what is due, a slice of each; when to go on, in ms."""
        now = self._time.now_ms()
        self._follow_clock()
        if self._reads_on(now):
            return now
        if not self._is_held:
            self._note_progress()
        if not self._taken_count:
            self._take(now)
        if self._taken_count:
            self._taken, error = await release.put_all(self._store, self._taken)
            if self._taken:
                self._taken = await release.put_off(self._store, self._levels, self._taken, error)
            if self._taken:
                if not self._failing:
                    logger.error("cannot deliver timer messages, trying again - %s", error)
                self._failing = True
                return self._time.now_ms() + RETRY_MS
            self._failing = False
            # Only now, behind their puts: a crash before this doubles them and loses none.
            for _ in range(self._taken_count):
                self._waiting.remove_first()
            self._taken_count = 0
            self._note_progress()
        return min(self._waiting.next_ms, self._retry_ms)

    def _follow_clock(self) -> None:
        ahead_ms = self._time.ahead_ms()
        # Those taken are the first of the heap, by number; to move deadlines now could make others
        # first.
        if abs(ahead_ms - self._ahead_ms) > STEP_MS and not self._taken_count:
            self._waiting.move_appointments(self._ahead_ms - ahead_ms)
            self._ahead_ms = ahead_ms

    def _reads_on(self, now: int) -> bool:
        """Read a slice of what was appended, if the disk can; whether there is more."""
        if self._taken_count:  # those are the first, and stay so until they are stored
            return False
        if self._retry_ms <= now:
            self._retry_ms = FAR
            self._waiting.bring_back()
        try:
            return self._read_new()
        except StorageError as error:
            self._cannot_read(error, now)
        return False

    def _read_new(self) -> bool:
        """Read a slice of what was appended; whether there is more."""
        low, end = self._store.bounds(names.TIMER_TOPIC, QUEUE)
        start = min(max(self._read, low), end)
        if start == end:
            return False
        found = self._store.read(names.TIMER_TOPIC, QUEUE, start, _READ_SLICE, SLICE_BYTES)
        for each in found:
            self._add(each)
        self._read = found[-1].queue_offset + 1 if found else min(end, start + _READ_SLICE)
        return self._read < end

    def _add(self, found: Found) -> None:
        try:
            message, _ = decode(found.frame)
        except BodyError as error:
            logger.error("dropped a timer message that is damaged: %s", error)
            return
        if not message.body and (recalled := _number_of(message, RECALLED)) is not None:
            # A recall is behind its message in the queue, so a start reads it before anything is
            # due.
            self._recalled.add(recalled)
            return
        out_ms = _number_of(message, properties.TIMER_OUT_MS) or 0
        delay_ms = _delay_ms(message)
        # The system's time may have been set between the request and its storage.
        stated_ms = out_ms if delay_ms is None else message.store_ms + delay_ms
        skip = found.queue_offset < self._skip_below and stated_ms <= self._skip_until_ms
        if skip or not out_ms:
            return
        if delay_ms is None:
            self._waiting.add(out_ms - self._ahead_ms, found.queue_offset, appointment=True)
        else:
            self._waiting.add(self._time.due_ms(message, delay_ms), found.queue_offset)

    def _take(self, now: int) -> None:
        """Take the messages that are due, up to a slice."""
        nbytes = 0
        # They stay in the heap until they are stored; ``remove_first`` goes by this order.
        for offset in self._waiting.due(now, SLICE):
            try:
                message = self._store.message_at(names.TIMER_TOPIC, QUEUE, offset)
            except StorageError as error:
                if not self._taken_count:  # else it is the first one of the next slice
                    self._waiting.set_first_aside()
                    self._cannot_read(error, now)
                break
            self._taken_count += 1
            # Counted as taken, though nothing is put: so it leaves the heap with its neighbours.
            if offset in self._recalled:
                continue
            draft = None if message is None else release.released(self._topics, message)
            if draft is not None:
                self._taken.append(draft)
                nbytes += len(draft.body)
            if nbytes > SLICE_BYTES:
                break

    def _cannot_read(self, error: StorageError, now: int) -> None:
        """Try again after a while; what can be read is delivered meanwhile."""
        if self._retry_ms == FAR:
            logger.error("cannot read timer messages, trying again - %s", error)
            self._retry_ms = now + UNREADABLE_MS


def _number_of(message: StoredMessage, name: str) -> int | None:
    return properties.number(properties.value_of(message.properties, name))


def _delay_ms(message: StoredMessage) -> int | None:
    """The delay that a message asked for; None if it has an appointment."""
    for name, unit_ms in _DELAYS.items():
        number = _number_of(message, name)
        if number is not None:
            return number * unit_ms
    return None
