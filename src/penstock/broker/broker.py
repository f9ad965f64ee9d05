"""The broker: all topics of one data path, and what has to be done for them from time to time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.channel import Channel, ChannelOptions
from penstock.broker.dialects import queue_offset
from penstock.broker.publish.append_observer import AppendObserver
from penstock.broker.publish.bounds import Bounds
from penstock.broker.steady_time import SteadyTime
from penstock.broker.topic import Topic
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import DiskHangsError, StorageError
from penstock.core.names import is_ephemeral
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues.one_queue import OneQueue, Queues
from penstock.storage.retention import Retention
from penstock.storage.store import Store

logger = logging.getLogger(__name__)

_SAVE = "write down progress"


def _damaged(topic: Topic) -> StorageError:
    found = topic.damage.pending
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return StorageError(
        f"topic {topic.name} is damaged: {found[0]}{more}; nothing of it is "
        f"deleted until POST /topic/damage/accept?topic={topic.name}"
    )


@dataclass(slots=True)
class BrokerOptions:
    """Node id (0..1023), bounds of topics and channels, how long consumed messages stay."""

    node_id: int = 0
    channel: ChannelOptions = field(default_factory=ChannelOptions)
    retention: Retention = field(default_factory=Retention)
    bounds: Bounds = field(default_factory=Bounds)


class Broker:
    """Topics by name. The shell around it calls ``tick``, ``save`` and ``trim`` when it is time."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, options: BrokerOptions) -> None:
        """Open every queue of the store. Raises StorageError when one cannot be opened."""
        self.topics: dict[str, Topic] = {}
        self.alarms = Alarms()
        self._problems: dict[tuple[str, str], StorageError] = {}
        self.store = store
        self._clock = clock
        self._chance = chance
        self._options = options
        self._time = SteadyTime(clock)
        self._observers: list[AppendObserver] = []
        for name in self._stored():
            self.topic(name)
        self.store.epochs.opened(
            {
                name: (topic.log.id_base, topic.log.next_offset)
                for name, topic in self.topics.items()
            }
        )
        self._resume()
        for topic in self.damaged:
            logger.error("%s", _damaged(topic))

    def _stored(self) -> Iterator[str]:
        """The topics to open at the start."""
        return (name for name, _queue in self.store.queues())

    def _resume(self) -> None:
        """Tell the topics how long ago any of them was in use when the broker started."""
        seen_ns = max((topic.time.seen_ns for topic in self.topics.values()), default=0)
        for topic in self.topics.values():
            topic.time.resumed(topic.log.next_offset, self._clock.wall_ns() - seen_ns)

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is not there. Raises StorageError."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = self._open(name)
        return topic

    def _open(self, name: str) -> Topic:
        base = self.store.taken_ids.new_base(self._options.node_id, self._clock.wall_ns())
        if is_ephemeral(name):
            return self._make(name, MemoryLog(base), None)
        log, journal, _ = self.store.open_queue(name, 0, base)
        return self._make(name, log, journal, self.store.open_queues(name, log, queue_offset))

    def _make(
        self,
        name: str,
        log: Log | MemoryLog,
        journal: Journal | None,
        queues: Queues | None = None,
    ) -> Topic:
        return Topic(
            name,
            log,
            journal,
            clock=self._clock,
            chance=self._chance,
            alarms=self.alarms,
            options=self._options.channel,
            bounds=self._options.bounds,
            queues=queues,
            observers=self._observers,
        )

    def observe(self, observer: AppendObserver) -> None:
        """Tell it of what is appended to any topic from now on."""
        self._observers.append(observer)

    def split(self, topic: Topic, queues: int, spread: int) -> None:
        """Give a topic this number of queues; publishes that name none use the first ``spread``.

        Raises StorageError.
        """
        if queues > 1 and isinstance(topic.queues, OneQueue) and isinstance(topic.log, Log):
            topic.queues = self.store.open_queues(topic.name, topic.log, queue_offset, several=True)
        topic.spread = max(1, spread)

    @property
    def health(self) -> StorageError | None:
        """The newest disk problem of housekeeping that is not over yet, else damage that no
        operator has accepted.
        """
        return self.problem or next(map(_damaged, self.damaged), None)

    @property
    def problem(self) -> StorageError | None:
        """The newest disk problem of housekeeping that is not over yet."""
        return next(reversed(self._problems.values()), None)

    @property
    def damaged(self) -> Iterator[Topic]:
        """The topics with damage that no operator has accepted."""
        return (topic for topic in self.topics.values() if topic.damage.pending)

    def delete_topic(self, name: str) -> Topic:
        """Remove a topic with all it holds. Raises KeyError; StorageError, and keeps it then."""
        topic = self.topics[name]
        # Before the files go: a topic of that name made again must not give out the same ids.
        self.store.taken_ids.take(topic.log.next_id, durably=not topic.ephemeral)
        topic.delete()
        del self.topics[name]
        for problem in [problem for problem in self._problems if problem[0] == name]:
            del self._problems[problem]
        return topic

    def tick(self, now: int) -> list[Channel]:
        """Handle the deadlines that have passed (monotonic ns); the channels to dispatch."""
        # One look for all topics: this runs every 10 ms, and there may be thousands of them.
        if self._time.note_stamp(0, self._clock.wall_ns()):
            for topic in self.topics.values():
                topic.follow_clock()
        channels = [sleeper for sleeper in self.alarms.due(now) if isinstance(sleeper, Channel)]
        for channel in channels:
            channel.tick(now)
        return channels

    def save(self) -> None:
        """Write down the progress of all channels and groups that changed."""
        for topic in self.topics.values():
            # Once more though nothing changed: only a save that succeeds ends the problem.
            if topic.changed or (topic.name, _SAVE) in self._problems:
                self._guarded(topic.journal.save, topic, _SAVE)

    def trim(self) -> None:
        """Delete segments that nobody needs any more."""
        for topic in self.topics.values():
            self._guarded(partial(topic.trim, self._options.retention), topic, "trim the log")

    def _guarded(self, action: Callable[[], object], topic: Topic, what: str) -> None:
        problem = (topic.name, what)
        try:
            action()
        except DiskHangsError:
            pass  # it is tried again, and the disk itself says how long that lasts
        except StorageError as error:
            # Once, not at each try: a full disk fails every time.
            if problem not in self._problems:
                logger.error("TOPIC(%s): failed to %s - %s", topic.name, what, error)
            self._problems[problem] = error
        else:
            self._problems.pop(problem, None)

    def close(self) -> None:
        """Write all down, sync, close. Problems are logged; the first is raised at the end."""
        first: StorageError | None = None
        for topic in self.topics.values():
            try:
                topic.close()
            except StorageError as error:
                logger.error("TOPIC(%s): failed to close - %s", topic.name, error)
                first = first or error
        self.store.close()
        if first is not None:
            raise first
