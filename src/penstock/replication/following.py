"""The follower's loop: take what the primary sends, sync, say so, and again."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.cluster.replication_status import BEHIND_S
from penstock.core.clock import Clock
from penstock.core.counted import counted
from penstock.core.errors import PenstockError, StorageError
from penstock.core.units import SECOND
from penstock.net import threads
from penstock.net.tasks import spawn
from penstock.node.max_lag import MaxLag
from penstock.replication.copy import Copy
from penstock.replication.feed import NBYTES_MAX
from penstock.replication.lag import FRESH_NS, Lag
from penstock.replication.messages import (
    Hello,
    ReplicationError,
    encode_ack,
    encode_fetch,
)
from penstock.replication.peer import Peer, PeerError, PeerStream
from penstock.replication.state import ReplicationState
from penstock.storage.batch import Buffer
from penstock.storage.durability import Durability
from penstock.storage.log import SyncJob

logger = logging.getLogger("penstock.replication")

# The primary sends an answer every half second even without news (`stream.WAIT_NS`), so a node that
# is silent for twenty times that is gone.
ASK_S: Final = 10.0
NOT_OURS: Final = ("OTHER_HISTORY", "NOT_FOUND")
"""Refusals of a node that is not the primary of this copy any more, perhaps after a new disk."""
TAKES_NOTHING: Final = (*NOT_OURS, "FOLLOWER")
RETRY_S: Final = 0.25
RETRY_S_MAX: Final = 1.0
"""Less than ``lag.UNSEEN_NS``: a port that stays closed is seen to."""
BEHIND_NS: Final = int(BEHIND_S * SECOND)
"""A copy that has lacked messages for longer, and knows it, has fallen behind."""


class Pulling:
    """The work of one follower. ``save`` writes its standing down; it raises StorageError."""

    def __init__(
        self,
        copy: Copy,
        state: ReplicationState,
        peer: Peer,
        clock: Clock,
        save: Callable[[], None],
        sync_timeout: int,
    ) -> None:
        self.error: str | None = "not asked yet"
        """The reason why this node does not follow; None while it does."""
        self._copy = copy
        self._standing = state
        self._peer = peer
        self._clock = clock
        self._save = save
        self._sync_timeout = sync_timeout
        self._is_fsync = copy.store.options.durability is Durability.FSYNC
        self._sync_at = 0
        self.lag = Lag(clock)
        self.acked = self.copies = 0
        """Copies that have all that the primary acknowledges, and all that follow, as it said."""
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stream: PeerStream | None = None
        self._said: deque[tuple[int, int]] = deque()
        """The numbers of what was said to the primary, and when; those that an answer may name."""
        self._is_asking = False
        self._is_unsaved = False
        """True if the standing could not be written down as it is."""
        self.address = ""
        self.stepped: list[Callable[[], None]] = []
        """Called when an answer was taken, for those who show what has come; they raise
        StorageError."""

    def start(self) -> None:
        """Follow until ``stop``; what fails is told once, and tried again."""
        self._task = spawn(self._run(), "follow")

    async def stop(self) -> None:
        """End after what is being taken and synced."""
        self._stopped.set()
        if self._task is not None:
            if self._is_asking:
                self._task.cancel()
            await self._task
        self._leave()

    def resume(self) -> None:
        """Go on after ``stop``."""
        self._stopped.clear()
        self.start()

    async def _run(self) -> None:
        pause = RETRY_S
        while not self._stopped.is_set():
            try:
                await self.step()
                pause = RETRY_S
            except asyncio.CancelledError:
                if not self._stopped.is_set():
                    raise
            except PenstockError as error:
                self._failed(str(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stopped.wait()
                pause = min(2 * pause, RETRY_S_MAX)

    async def step(self) -> None:
        """Take the next answer. Raises PenstockError; then the next step asks again."""
        try:
            await self._step()
        except BaseException:
            self._leave()
            raise

    async def _step(self) -> None:
        copy, state = self._copy, self._standing
        self._is_asking = True  # and nothing is half done
        try:
            stream, answer = await self._next()
        except PeerError as error:
            self.unreached(error)
            raise self._refused(error) from error
        finally:
            self._is_asking = False
        try:
            hello = copy.take(answer)
        except StorageError:
            # The disk is full, say: what the answer held is known to be missing here.
            self._note_behind()
            raise
        if hello is not None:
            self._leave()
            self._begin(hello)
            return
        made_ns = self._said_ns(copy.last_end.number) + copy.last_end.waited_ns
        self.acked, self.copies = copy.last_end.acked, copy.last_end.copies
        # Before the word that it is here: at `fsync` only synced data counts.
        await self._sync()
        self._acknowledge(stream)
        for tell in self.stepped:
            tell()
        if self.error is not None:
            logger.info("following %s, in epoch %d", self._peer.address, state.epoch)
            self.error = None
        # What was acknowledged after it was made, the answer may not have.
        self.lag.heard(made_ns, is_whole=copy.is_whole)
        if copy.is_whole:
            self._settle()
        else:
            self._note_behind()
            if self._is_unsaved:
                self._keep()

    async def _next(self) -> tuple[PeerStream, Buffer]:
        """The next answer and its stream, a new one where that has ended. Raises PeerError."""
        if self._stream is not None:
            try:
                return self._stream, await self._stream.next(ASK_S)
            except PeerError:
                # Its end says nothing about the primary, which may have a reason.
                if not self._stream.has_ended:
                    raise
                self._leave()
        state = self._standing
        fetch = self._copy.request(state.history, state.epoch, NBYTES_MAX, self.address)
        self._said.clear()
        self._said.append((fetch.number, self._clock.monotonic_ns()))
        stream = await self._peer.stream("/replication/fetch", encode_fetch(fetch), ASK_S)
        self._stream = stream
        return stream, await stream.next(ASK_S)

    def _said_ns(self, number: int) -> int:
        """The time at which this was said."""
        while len(self._said) > 1 and self._said[0][0] < number:
            self._said.popleft()
        return self._said[0][1]

    def _acknowledge(self, stream: PeerStream) -> None:
        """Say that an answer is here, or leave, to ask again."""
        if self._copy.is_astray:
            self._leave()
            return
        ack = self._copy.acknowledge()
        self._said.append((ack.number, self._clock.monotonic_ns()))
        stream.say(encode_ack(ack))

    def _leave(self) -> None:
        """End the connection; the next step makes another."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()

    def unreached(self, error: PeerError) -> None:
        """Note that the primary did not answer, or another node in its place."""
        is_gone = error.is_closed or error.code in TAKES_NOTHING
        is_ours = error.code == "FENCED" and error.successor.primary == self.address
        self.lag.failed(is_closed=is_gone or is_ours)

    def _refused(self, error: PeerError) -> PenstockError:
        """The reason in words; a fenced node's is noted. Raises StorageError."""
        # Any other refusal may pass; this one says for good that another node is primary.
        if error.code != "FENCED":
            return error
        epoch, successor = error.successor.epoch, error.successor.primary
        self.hear(epoch, successor)
        if successor == self.address:
            return ReplicationError(
                f"{self._peer.address} stepped back for this node, whose promotion to epoch "
                f"{epoch} failed; promote it again"
            )
        return ReplicationError(
            f"{self._peer.address} is fenced: {successor} is primary in epoch "
            f"{epoch}, and is to be followed instead"
        )

    def hear(self, epoch: int, successor: str) -> None:
        """Note that the primary has stepped back for this node, and write it down: its epoch is
        never taken again. Raises StorageError.
        """
        if self._standing.hear(epoch, successor, is_this=successor == self.address):
            self._is_unsaved = True
        if self._is_unsaved:
            self._keep()

    def _keep(self) -> None:
        """Write the standing down, again with each step if that fails. Raises StorageError."""
        self._is_unsaved = True
        self._save()
        self._is_unsaved = False

    def _begin(self, hello: Hello) -> None:
        """Follow this run of the primary, if it is one of ours. Raises ReplicationError."""
        state, address = self._standing, self._peer.address
        if state.history and hello.history != state.history:
            self.lag.failed(is_closed=True)
            raise ReplicationError(
                f"{address} has another history than this copy, perhaps a new disk: nothing was "
                "changed here; promote this node, or give it an empty data path"
            )
        # An old primary that came back: what it took since the promotion must not be copied.
        if hello.epoch < state.epoch:
            raise ReplicationError(
                f"{address} is of epoch {hello.epoch}, older than this copy's, "
                f"{state.epoch}: it has been succeeded"
            )
        state.begin(hello.history, hello.epoch)
        self._save()
        self._copy.never_drop = not state.is_settled
        self._copy.moment = f"{self._clock.wall_ns()}"
        self._copy.begin_run(hello)

    def _settle(self) -> None:
        state = self._standing
        if state.is_settled and state.was_whole and not self._is_unsaved:
            return
        state.is_settled = state.was_whole = True
        state.fork = None
        self._keep()
        self._copy.never_drop = False

    def _note_behind(self) -> None:
        """Note it, to be written down, if an answer of the primary shows that this copy has fallen
        behind.
        """
        if self._standing.was_whole and self._has_fallen_behind():
            self._standing.was_whole = False
            self._is_unsaved = True

    def _has_fallen_behind(self) -> bool:
        """True if what this copy is known to lack is more than what is always on its way."""
        if self._copy.is_retaking:
            return True
        age_ns = self.lag.behind_ns
        return (age_ns is None or age_ns > BEHIND_NS) and self._copy.messages_behind > 0

    async def _sync(self) -> None:
        """Sync in a thread, at once at the level ``fsync``, else now and then. Raises
        StorageError.
        """
        now = self._clock.monotonic_ns()
        # Below ``fsync`` a copy promises no more than the primary's own OK does.
        if not self._is_fsync and now < self._sync_at:
            await self._write_out()
            return
        self._sync_at = now + self._sync_timeout
        for copy in list(self._copy.topics.values()):
            job = copy.log.begin_sync()
            if job is not None:
                await _run(job, copy.log.end_sync)
            if copy.log.failure is not None:
                raise StorageError(f"{copy.name}: {copy.log.failure}; only a restart helps")
        self._copy.settle()

    async def _write_out(self) -> None:
        """Have the system write what has come, and wait for what it writes already."""
        for copy in list(self._copy.topics.values()):
            work = copy.write_out()
            if work is not None:
                done = asyncio.get_running_loop().create_future()
                threads.run(work, done.set_result)
                await asyncio.shield(done)

    def _failed(self, error: str) -> None:
        if error != self.error:
            logger.error("cannot follow %s - %s", self._peer.address, error)
        self.error = error

    @property
    def lag_ns(self) -> int | None:
        """The time in which the primary may have acknowledged what is not here; 0 while all is,
        None if it never was since the start.
        """
        since = self.lag.ns
        is_whole = self.error is None and self._copy.is_whole
        return 0 if since is not None and is_whole and since < FRESH_NS else since

    def lag_beyond(self, bound: MaxLag) -> str:
        """The reason why a promotion might lose more than the bound; empty if it cannot."""
        primary = self._peer.address
        ns, silent_ns = self.lag.ns, self.lag.silent_ns
        if ns is None or silent_ns is None:
            return (
                f"how far it is behind is not known, as it never had all that {primary} had since "
                "it was started"
            )
        if bound.messages is None:
            known = f"it last had all that {primary} had {ns / SECOND:.1f} s before"
            return known if ns > bound.ns else ""
        if silent_ns > FRESH_NS:
            return f"it last heard from {primary} {silent_ns / SECOND:.1f} s before"
        count = self._copy.messages_behind
        return f"it knows of {counted(count, 'message')} that it has not" * (count > bound.messages)


async def _run(job: SyncJob, ended: Callable[[StorageError | None], object]) -> None:
    """Sync in a thread, and wait for its end even when cancelled: else the log would wait for ever,
    and be synced no more. Raises StorageError.
    """
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    threads.run(job.run, outcome.set_result)
    cancelled = None
    while not outcome.done():
        try:
            await asyncio.shield(outcome)
        except asyncio.CancelledError as error:
            cancelled = error
    found = outcome.result()
    if found is not None and not isinstance(found, StorageError):
        found = StorageError(f"{job.directory}: sync failed: {found!r}")
    ended(found)
    if cancelled is not None:
        raise cancelled
    if found is not None:
        raise found
