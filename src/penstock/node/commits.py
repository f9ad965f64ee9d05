"""Group commit: all that one pass of the event loop publishes to a topic shares one write.

Sessions and HTTP handlers stage publishes. At the end of the pass, or at once while there is nobody
to share with, each topic that has some commits them, its producers are told, and its consumers get
them. At the ``fsync`` level both are served after a sync; what arrives meanwhile shares the next
one. Where followers are to have a message before its OK, both are served when they have it.

Theory of operation, in two tables. The first says when a publish is committed. All that a
connection publishes between ``hold`` and ``release`` counts as one publish. ``MANY`` publishes are
committed in any state; those to an occupied topic wait until it is vacated, and those that a disk
which hangs did not take wait until it answers.

    state                        event                  then
    n share the pass             publish                n + 1 share the pass
    n > FEW share the pass       its end: commit        none shares the pass
    n <= FEW share the pass      its end: commit        at once, AT_ONCE are left
    at once, n > 1 are left      publish: commit        at once, n - 1 are left
    at once, the last is left    publish: commit        none shares the pass

The second is of a topic's syncs. At ``fsync`` producers wait for them. At the other levels they are
made in the background, every now and then.

    state        event                                  then
    at rest      somebody waits, or it is time          under way
    under way    somebody waits                         under way, and more wait for the next one
    under way    its end; more than FEW told or wait    put off, as those told will publish again
    under way    its end; few wait                      under way again
    under way    its end; none waits                    at rest
    put off      as many wait, or its time is over      under way
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.publish.batching import Outcome, Staged
from penstock.broker.publish.bounds import TopicFullError
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import DiskFullError, DiskHangsError, ExitingError, StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.wakefulness import Wakefulness
from penstock.node.replicas import Replicas
from penstock.node.sync_place import SyncPlace
from penstock.storage.durability import Durability
from penstock.storage.files.patient_disk import Hand
from penstock.storage.log import Log, SyncJob

logger = logging.getLogger(__name__)

_WRITE, _SYNC = "write", "sync"

SYNC_REST_NS: Final = 25 * MILLISECOND
"""Between two syncs in the background. At a million messages a second ``--sync-every`` alone would
ask for hundreds of syncs a second, which cost a fifth of the throughput and save milliseconds."""


FEW: Final = 2
AT_ONCE: Final = 32
"""After a pass that brought ``FEW`` publishes or less, the next ``AT_ONCE`` are committed at once,
each by itself: one or two producers that wait for every OK would only wait for the pass to end."""
MANY: Final = 4096
"""The most publishes that share a commit: the objects of a pass that reads megabytes of tiny ones
would take a hundred times their bytes."""


GATHER_NS_MAX: Final = 2 * MILLISECOND
"""The longest time that a sync is put off for more publishes to share it."""
_GATHER_SHARE: Final = 4  # times what the last sync took


class _PutOff(NamedTuple):
    """A sync that is put off until ``expected`` producers wait for it, or the timer ends."""

    expected: int
    timer: asyncio.TimerHandle


@dataclass(slots=True, eq=False)
class _Syncs:
    """The syncs of a topic."""

    state: SyncJob | _PutOff | None = None
    """The sync that is under way, or put off; None at rest."""
    waiting: list[Outcome] = field(default_factory=list)
    """Producers that wait for the next sync; those of the one under way are not among them."""
    rest_until_ns: int = 0
    """The time from which ``--sync-every`` may ask for a sync again (monotonic)."""


class Commits:
    """The publishes of all topics on their way into the log."""

    def __init__(
        self,
        clock: Clock,
        durability: Durability,
        sync_every: int,
        replicas: Replicas | None = None,
        hand: Hand | None = None,
    ) -> None:
        """``hand`` writes for a disk that may hang."""
        self._failed: dict[tuple[Topic, str], StorageError] = {}
        self._clock = clock
        self._fsync = durability is Durability.FSYNC
        self._replicas = replicas
        if replicas is not None:
            replicas.on_copied = self._copied
        self._sync_every = max(1, sync_every)
        self._dirty: dict[Topic, None] = {}
        """Topics that have staged publishes."""
        self._in_pass = 0
        """Publishes that share this pass; its end is scheduled with the first."""
        self._at_once_left = 0
        """Publishes that are still committed at once; 0 unless none shares this pass."""
        self._read: int | None = None
        """Publishes of the read that a connection takes; None while none does."""
        self._uncommitted = 0
        """Publishes since the last commit."""
        self._occupied: set[Topic] = set()
        self._held_up: dict[Topic, list[Staged]] = {}
        """The publishes of topics that are occupied because the disk does not answer."""
        self._syncs: defaultdict[Topic, _Syncs] = defaultdict(_Syncs)
        self._moved = asyncio.Event()
        """Set when a topic is vacated, and when the state of its syncs has changed."""
        self._place = SyncPlace(clock, hand)
        self._loop = asyncio.get_running_loop()
        if hand is not None:
            hand.answers.append(self._tell_disk_answers)
        self._wakefulness = Wakefulness(self._loop)

    def publish(
        self,
        topic: Topic,
        records: Records,
        delay_ns: int,
        done: Outcome,
        queue: int | None = None,
    ) -> None:
        """Publish with this pass of the loop; ``done`` gets None or the error afterwards."""
        if topic.exiting:
            # Its deletion has begun: nothing may come behind the log that settles (NSQ spec 3.1).
            done(ExitingError())
            return
        if self._replicas is not None and isinstance(topic.log, Log):
            # Only logs on disk are copied: a follower has nothing of an #ephemeral topic.
            refusal = self._replicas.refusal
            if refusal is not None:
                done(refusal)
                return
        topic.stage(records, delay_ns, done, queue)
        if self.is_idle:
            self._at_once_left -= 1
            self._commit_topic(topic, self._clock.monotonic_ns())
            # Its producer publishes again once it has its OK.
            if self._replicas is None or not self._replicas.waits:
                self._wakefulness.extend()
            return
        self._dirty[topic] = None
        if self._read is not None:
            # The connection's whole read is one publish: ``release`` commits it, or the pass.
            self._read += 1
        elif self._at_once_left:
            self._at_once_left -= 1
            self.commit()
            return
        else:
            if not self._in_pass:
                # Runs behind what this pass still reads, so all that it brings shares the write.
                self._loop.call_soon(self._end_pass)
            self._in_pass += 1
        self._uncommitted += 1
        if self._uncommitted >= MANY:
            self.commit()

    def joined(self) -> None:
        """Count a publish that has joined another, which is staged."""
        if self._in_pass:  # else the topic is occupied, and its publishes wait for ``vacate``
            self._in_pass += 1

    @property
    def is_idle(self) -> bool:
        """True if nobody is there to share a write with: then no topic has staged publishes."""
        return self._at_once_left > 0 and self._read is None and not self._occupied

    def hold(self) -> None:
        """Commit nothing until ``release``: a connection takes all that it has read."""
        self._read = 0

    def release(self) -> bool:
        """Commit what was published since ``hold``, which counts as one publish. Whether that is
        left to the end of the pass.
        """
        read, self._read = self._read, None
        if not read:
            return False
        if self._at_once_left:
            self._at_once_left -= 1
            self.commit()
            return False
        if not self._in_pass:
            self._loop.call_soon(self._end_pass)
        self._in_pass += 1
        return True

    def _end_pass(self) -> None:
        """Commit what this pass of the loop has staged; how much that was tells what to do next."""
        shared, self._in_pass = self._in_pass, 0
        self._at_once_left = AT_ONCE if shared <= FEW else 0
        self.commit()

    def commit(self) -> None:
        """Commit what is staged, tell the producers and serve the consumers."""
        # Swapped first: a producer that is told may publish at once, which is for the next commit.
        dirty, self._dirty = self._dirty, {}
        self._uncommitted = 0
        now = self._clock.monotonic_ns()
        for topic in dirty:
            # A large write is prepared for the log's present end: publishes wait for ``vacate``.
            if topic in self._occupied:
                self._dirty[topic] = None
            else:
                self._commit_topic(topic, now)

    def _commit_topic(self, topic: Topic, now: int) -> None:
        start, staged = topic.log.next_offset, topic.staged
        outcomes, error = topic.commit()
        if error is not None and isinstance(error, DiskHangsError) and not topic.config.bounds:
            self._hold_up(topic, staged)
            return
        self._appended(topic, start, outcomes, error, now)

    def _hold_up(self, topic: Topic, staged: list[Staged]) -> None:
        """Let publishes that the disk did not take wait until it answers."""
        if not self._held_up:
            logger.error("the disk does not answer: publishes wait")
        self._held_up[topic] = staged
        self._occupied.add(topic)

    def _tell_disk_answers(self) -> None:
        """Called in the thread of the disk."""
        with suppress(RuntimeError):  # the loop may be closed
            self._loop.call_soon_threadsafe(self._disk_answers)

    def _disk_answers(self) -> None:
        """Commit what has waited for the disk."""
        held_up, self._held_up = self._held_up, {}
        if held_up:
            logger.info("the disk answers again")
        for topic, staged in held_up.items():
            # Not before: none may join those that were encoded already.
            topic.staged[:0] = staged
            self._dirty[topic] = None
            self._occupied.discard(topic)
        self._moved.set()
        self.commit()

    def _appended(
        self,
        topic: Topic,
        start: int,
        outcomes: list[Outcome],
        error: StorageError | None,
        now: int,
    ) -> None:
        """Tell the producers, at once or after the sync, and serve the consumers."""
        if error is not None or self._failed:
            self._note(topic, _WRITE, error)
        log = topic.log
        replicas = self._replicas
        waits = self._fsync or (replicas is not None and replicas.waits)
        # An #ephemeral topic is memory alone: there is no sync and no copy to wait for.
        if not waits or error is not None or not isinstance(log, Log):
            _answer(topic, log.next_offset - start, outcomes, error, now)
        # At ``fsync`` the disk comes first: ``_synced`` then waits for copies of what is synced.
        elif self._fsync:
            self._sync_soon(topic, outcomes)
        else:
            assert replicas is not None
            self._await_copies(replicas, topic, log.append_offset, outcomes)
        if log.unsynced_messages >= self._sync_every:
            self._sync_if_due(topic, now)

    def _await_copies(
        self, replicas: Replicas, topic: Topic, end: int, outcomes: list[Outcome]
    ) -> None:
        if end > topic.log.next_offset:
            replicas.wait(topic, end, outcomes)
        else:
            _tell(outcomes, None)  # nothing was kept

    def _copied(self, topic: Topic, outcomes: list[Outcome], end: int) -> None:
        """Show what is copied up to ``end``, tell its producers and serve the consumers."""
        start = topic.log.next_offset
        topic.show(end)
        arrived = topic.log.next_offset - start
        _answer(topic, arrived, outcomes, None, self._clock.monotonic_ns())
        if self._at_once_left:
            self._wakefulness.extend()

    def _sync_if_due(self, topic: Topic, now: int) -> None:
        syncs = self._syncs[topic]
        if now >= syncs.rest_until_ns:
            syncs.rest_until_ns = now + SYNC_REST_NS
            self.sync(topic)

    def occupy(self, topic: Topic) -> None:
        """Let publishes to a topic wait until ``vacate``, while a large write is prepared."""
        self._occupied.add(topic)

    def append(self, topic: Topic, write: Callable[[], None], done: Outcome) -> None:
        """Append to an occupied topic what is no publish; ``done`` is called as for a publish."""
        start = topic.log.next_offset
        error = None
        try:
            write()
        # Not noted, as they say nothing about the disk: ``/ping`` shows failed writes alone.
        except (TopicFullError, ExitingError) as refusal:
            done(refusal)
            return
        except StorageError as failure:
            error = failure
        self._appended(topic, start, [done], error, self._clock.monotonic_ns())

    def vacate(self, topic: Topic) -> None:
        """Commit the publishes that have waited."""
        self._occupied.discard(topic)
        self._moved.set()
        self.commit()

    def _sync_soon(self, topic: Topic, outcomes: list[Outcome]) -> None:
        """Sync for these and those who wait, with those who are about to."""
        syncs = self._syncs[topic]
        syncs.waiting += outcomes
        state = syncs.state
        # The timer bounds the wait, should one of those expected not publish again.
        if isinstance(state, _PutOff) and len(syncs.waiting) < state.expected:
            return
        self.sync(topic)

    def sync(self, topic: Topic) -> None:
        """Sync a topic's log, unless a sync is under way."""
        syncs = self._syncs[topic]
        # Whoever waits is served by the next one: ``_gather`` begins it when this one ends.
        if isinstance(syncs.state, SyncJob):
            return
        if syncs.state is not None:
            syncs.state.timer.cancel()
        # Those who come from now on may be appended behind what this sync covers.
        syncs.state, outcomes, syncs.waiting = None, syncs.waiting, []
        self._moved.set()
        try:
            job = topic.log.begin_sync()
        except StorageError as error:
            if not isinstance(error, DiskHangsError):
                self._note(topic, _SYNC, error)
            _tell(outcomes, error)
            return
        if job is None:  # the log has failed meanwhile, or has nothing to sync
            _tell(outcomes, topic.log.failure)
            return
        syncs.state = job
        done = partial(self._synced, topic, outcomes, self._clock.monotonic_ns())
        # A sync in the loop holds up everybody: only for few who wait, and little to write.
        is_small = 0 < len(outcomes) <= FEW and job.messages <= MANY
        self._place.run(job.run, done, may_wait=is_small)

    def _synced(
        self, topic: Topic, outcomes: list[Outcome], began_ns: int, error: Exception | None
    ) -> None:
        """End a sync: answer the producers that wait for it, and dispatch the visible messages."""
        # A bug in the thread must not leave producers without an answer.
        if error is not None and not isinstance(error, StorageError):
            error = StorageError(f"{topic.name}: sync failed: {error!r}")
        self._syncs[topic].state = None
        self._moved.set()
        start = topic.log.next_offset
        topic.end_sync(error)
        if topic.log.failure is not None:
            logger.error(
                "TOPIC(%s): sync failed, refusing publishes until a restart - %s", topic.name, error
            )
        self._note(topic, _SYNC, error)
        replicas = self._replicas
        if error is None and self._fsync and replicas is not None and replicas.waits:
            assert isinstance(topic.log, Log)
            self._await_copies(replicas, topic, topic.log.synced_offset, outcomes)
        else:
            arrived = topic.log.next_offset - start
            _answer(topic, arrived, outcomes, error, self._clock.monotonic_ns())
        # A log that has failed shows nothing more, however many copies there are.
        if topic.log.failure is not None and replicas is not None:
            replicas.fail(topic, topic.log.failure)
        self._gather(topic, len(outcomes), self._clock.monotonic_ns() - began_ns)

    def _gather(self, topic: Topic, told: int, took_ns: int) -> None:
        """After a sync: those who were told will publish again, and can share the next one with
        those who wait. A sync costs as much for one as for all; without this wait many producers
        fall into small groups, each of which keeps the others from growing.
        """
        syncs = self._syncs[topic]
        if syncs.state is not None:  # one who was told has published already
            return
        waiting = len(syncs.waiting)
        if told + waiting > FEW and told:
            seconds = min(_GATHER_SHARE * took_ns, GATHER_NS_MAX) / SECOND
            timer = self._loop.call_later(seconds, self.sync, topic)
            syncs.state = _PutOff(told + waiting, timer)
        elif waiting:
            self.sync(topic)

    async def answer(self) -> None:
        """Answer everything published before this call, however long others go on publishing.
        Publishes that still wait for copies are answered that the node exits.
        """
        self.commit()
        owing = dict.fromkeys([*self._occupied, *self._not_at_rest(None)])
        await asyncio.gather(*map(self._answer_owed, owing))
        if self._replicas is not None:
            self._replicas.abandon()

    async def _answer_owed(self, topic: Topic) -> None:
        await self._until(lambda: topic not in self._occupied)
        await self._end_of_sync(topic)
        await self._end_of_sync(topic)  # of those who came meanwhile

    async def _end_of_sync(self, topic: Topic) -> None:
        """Wait for the sync that is under way or put off, if there is one."""
        syncs = self._syncs[topic]
        if isinstance(syncs.state, _PutOff):
            self.sync(topic)
        begun = syncs.state
        if begun is not None:
            await self._until(lambda: syncs.state is not begun)

    async def settle(self, topic: Topic | None = None) -> None:
        """Commit what is staged and wait for the syncs under way. Nobody may publish to the topic,
        or to any, meanwhile. Publishes that still wait for copies are answered that it exits.
        """
        await self._until(
            lambda: not self._occupied if topic is None else topic not in self._occupied
        )
        self.commit()
        while busy := self._not_at_rest(topic):
            self._moved.clear()
            # Cleared first: a short sync may end, and set it, within the call.
            for each in busy:
                self.sync(each)
            await self._moved.wait()
        if self._replicas is not None:
            self._replicas.abandon(topic)

    def _not_at_rest(self, topic: Topic | None) -> list[Topic]:
        """The topics with a sync under way or put off: all of them, or this one if it has."""
        return [
            each
            for each, syncs in self._syncs.items()
            if syncs.state is not None and topic in (None, each)
        ]

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._moved.clear()
            await self._moved.wait()

    def forget(self, topic: Topic) -> None:
        """The topic is settled and deleted, and its troubles with it."""
        for action in (_WRITE, _SYNC):
            self._failed.pop((topic, action), None)
        self._syncs.pop(topic, None)

    @property
    def health(self) -> StorageError | None:
        """The error of the newest write or sync of a topic that failed; None when all went well."""
        return next(reversed(self._failed.values()), None)

    def _note(self, topic: Topic, action: str, error: StorageError | None) -> None:
        """Record an outcome. A sync of older messages does not heal a disk that is full.

        A write does, for all topics: some may never be published to again.
        """
        if error is None:
            self._failed.pop((topic, action), None)
            if self._failed and action == _WRITE:
                self._failed = {
                    of: failure
                    for of, failure in self._failed.items()
                    if not isinstance(failure, DiskFullError)
                }
            return
        # Once for each trouble: a full disk would else log a line for every publish.
        if (topic, action) not in self._failed:
            logger.error("TOPIC(%s): failed to %s - %s", topic.name, action, error)
        self._failed[topic, action] = error


def _answer(
    topic: Topic, arrived: int, outcomes: list[Outcome], error: StorageError | None, now: int
) -> None:
    """Answer the producers, and dispatch the new messages to the consumers.

    Few messages are dispatched first, because a consumer waits for them. Many are dispatched after
    the answers, so that the producers can prepare the next ones meanwhile.
    """
    few = arrived <= FEW
    if few:
        _serve(topic, now)
    _tell(outcomes, error)
    if not few:
        _serve(topic, now)


def _tell(outcomes: list[Outcome], error: StorageError | None) -> None:
    for done in outcomes:
        done(error)


def _serve(topic: Topic, now: int) -> None:
    for channel in topic.channels.values():
        channel.dispatch(now)
