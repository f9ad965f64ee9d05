"""Delay levels: messages that wait in a queue of the schedule topic, one queue a level.

All messages of a level wait equally long, so they become due in the order in which they were
stored, and how far a level has come is one offset (RocketMQ spec 4.6). A message is put to its own
topic first and the offset moves on afterwards: a crash between doubles messages and loses none. The
offsets are written down soon after they have moved, so that there are few to double.

Deadlines are in the topic's steady time, so that setting the system's time changes no delay.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.delays.due_loop import FAR, RETRY_MS, DueLoop
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.waiting_time import WaitingTime
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import decode

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.levels import DelayLevels
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import Found, MessageStore
    from penstock.rocketmq.remoting import Connection
    from penstock.storage.batch import Batch

FILE: Final = "delayOffset.json"
SLICE: Final = 128
"""Messages of a level that are delivered before others have their turn: a few ms of work."""
SLICE_BYTES: Final = 1024 * 1024

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True)
class _Level:
    """One level: all below ``offset`` is delivered, ``due_ms`` is the deadline of what follows."""

    queue: int
    delay_ms: int
    offset: int = 0
    due_ms: int = 0
    next_offset: int = 0
    taken: list[Draft] = field(default_factory=list)
    """Messages below ``next_offset`` that are due and not stored yet."""


class Schedule:
    """The service that delivers what waits in the levels."""

    def __init__(
        self,
        topics: TopicTable,
        levels: DelayLevels,
        store: MessageStore,
        files: StateFiles,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._delays = levels
        self._store = store
        self._levels = [
            _Level(level - 1, levels.delay_ns(level) // MILLISECOND)
            for level in range(1, levels.highest + 1)
        ]
        self._unused: dict[int, int] = {}
        """The offsets of levels that there are not now; there may be such levels again."""
        self._failing = False
        self._moved = True
        self._time = WaitingTime(store, clock, names.SCHEDULE_TOPIC)
        self._loop = DueLoop(
            "delayed messages", clock, self._time.now_ms, self.step, lambda: files.save_aside(FILE)
        )

    def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def offsets(self) -> dict[str, Any]:
        """The offset each level has reached, as in the file and for GET_ALL_DELAY_OFFSET."""
        used = {each.queue + 1: each.offset for each in self._levels if each.offset}
        return {"offsetTable": {**used, **self._unused}}

    @answers(RequestCode.GET_ALL_DELAY_OFFSET)
    def all_delay_offsets(self, connection: Connection, request: Command) -> Command:
        return json_answer(request, self.offsets())

    def progress(self) -> dict[int, tuple[int, int]]:
        """The progress of each level in use: how far it has come, and how far it could."""
        found = {}
        for each in self._levels:
            _, end = self._store.bounds(names.SCHEDULE_TOPIC, each.queue)
            if end:
                found[each.queue + 1] = (each.offset, end)
        return found

    def load(self, value: Any) -> None:
        """Take over the offsets that were kept. Raises BodyError."""
        table = value.get("offsetTable") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("delay offsets without offsetTable")
        offsets = fastjson.int_keys(table)
        for level, offset in offsets.items():
            if type(offset) is not int or offset < 0:
                raise BodyError(f"the offset {offset!r} of level {level} is not a number")
        for each in self._levels:
            each.offset = offsets.pop(each.queue + 1, 0)
        self._unused = offsets

    # --- delivering ----------------------------------------------------------------------------

    async def step(self) -> int:
        """Deliver a slice of each level that is due; when the next one will be, in ms."""
        now = self._time.now_ms()
        for level in self._levels:
            if level.due_ms <= now:
                try:
                    await self._deliver(level, now)
                except StorageError as error:  # the other levels have their turn
                    self._failed(level, error)
        if self._moved:
            self._hold()
        return min((level.due_ms for level in self._levels), default=FAR)

    def _hold(self) -> None:
        """Keep what is not delivered yet, however short the broker keeps messages."""
        topic = self._store.topics.get(names.SCHEDULE_TOPIC)
        if topic is not None:
            self._moved = False
            places = [topic.queues.locate(each.queue, each.offset, 1) for each in self._levels]
            least = min((place[0] for place in places if len(place)), default=topic.log.next_offset)
            release.hold(topic, least)

    def appended(self, _topic: str, batches: Sequence[Batch]) -> None:
        """Wake for messages of levels that nothing waited in."""
        for batch in batches:
            if batch.queue >= len(self._levels):
                continue
            level = self._levels[batch.queue]
            if level.due_ms == FAR:
                self._moved = True
                stamp_ms = batch.timestamp_ns // MILLISECOND
                level.due_ms = self._time.of(batch.first_offset, stamp_ms) + level.delay_ms
                self._loop.wake()

    def deleted(self, topic: str) -> None:
        """Begin again if the schedule topic itself is gone."""
        if topic == names.SCHEDULE_TOPIC:
            for level in self._levels:
                level.offset = level.next_offset = level.due_ms = 0
                level.taken = []
            self._unused = {}
            self._moved = True
            self._loop.wake()

    async def _deliver(self, level: _Level, now: int) -> None:
        if not level.taken:
            self._take(level, now)
        level.taken, error = await release.put_all(self._store, level.taken)
        if level.taken:
            level.taken = await release.put_off(self._store, self._delays, level.taken, error)
        if level.taken:
            self._failed(level, error)
            return
        self._failing = False
        if level.next_offset != level.offset:
            level.offset = level.next_offset
            self._moved = True
            self._loop.changed()

    def _failed(self, level: _Level, error: StorageError | None) -> None:
        """Try a level again after a while."""
        if not self._failing:
            logger.error("cannot deliver delayed messages, trying again - %s", error)
        self._failing = True
        level.due_ms = self._time.now_ms() + RETRY_MS

    def _take(self, level: _Level, now: int) -> None:
        """Read what is due, up to a slice."""
        low, end = self._store.bounds(names.SCHEDULE_TOPIC, level.queue)
        start = min(max(level.offset, low), end)
        found = self._store.read(names.SCHEDULE_TOPIC, level.queue, start, SLICE, SLICE_BYTES)
        level.next_offset, level.due_ms = start, FAR
        for each in found:
            due_ms = self._take_one(level, each, now)
            if due_ms > now:
                level.due_ms = due_ms
                return
            level.next_offset = each.queue_offset + 1
        if not found:  # damaged up to the end, if there is anything
            level.next_offset = min(end, start + SLICE)
        # The slice is full: the rest has its turn after the other levels.
        if level.next_offset < end:
            level.due_ms = now

    def _take_one(self, level: _Level, found: Found, now: int) -> int:
        """Take a message if it is due; when it is due, in ms."""
        try:
            waiting, _ = decode(found.frame)
        except BodyError as error:
            logger.error("dropped a delayed message that is damaged: %s", error)
            return 0
        due_ms = self._time.due_ms(waiting, level.delay_ms)
        if now < due_ms:
            return due_ms
        draft = release.released(self._topics, waiting)
        if draft is not None:
            level.taken.append(draft)
        return now
