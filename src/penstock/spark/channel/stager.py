"""From the channel to staged files, in a thread beside the driver: a message is finished when its
file is on stable storage.

No message waits for Spark. What has come is written as soon as nodes are about to send no more, as
a query waits for it, or after a second; so a message is never held for as long as its time-out, and
needs no TOUCH. While as much is staged as may be, nothing is taken from the nodes.
"""

from __future__ import annotations

from threading import Condition, Thread
from typing import Final

import pyarrow as pa

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.blocking import Consumer
from penstock.nsq.client.consume.delivery import Delivery
from penstock.spark.access import why
from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.channel.folder import Folder, StagedFile
from penstock.spark.errors import SourceError
from penstock.spark.read.decode import TYPES

FILES_MAX: Final = 10_000
"""Staged files at which no more messages are taken."""
FILED = ("body", "id", "timestamp", "attempts", "node")
"""The columns of a staged file; the topic is the same in all of them."""
_SCHEMA = pa.schema([pa.field(name, TYPES[name]) for name in FILED])
_POLL_S: Final = 0.05
_GATHER_NS: Final = SECOND
"""The longest that messages wait for others; much less than any time-out that is of use."""
_GATHER_WANTED_NS: Final = 50 * MILLISECOND
"""The longest that messages wait for others while Spark waits for a batch."""
_STOP_S: Final = 10.0


class Stager:
    """The one consumer of a query."""

    def __init__(self, settings: ChannelSettings, folder: Folder, least: int) -> None:
        """``least`` is the lowest number that a new file may have."""
        self._settings = settings
        self._folder = folder
        self._least = least
        self._pile = Pile()
        self._changed = Condition()
        self._wanted = False
        self._stopping = False
        self._error: SourceError | None = None
        self._alone_since_ns: int | None = None
        self._quiet_since_ns: int | None = SYSTEM_CLOCK.monotonic_ns()
        self._oldest: dict[int, int] = {}
        self._thread = Thread(target=self._run, daemon=True, name=f"staging {settings.where}")
        self._thread.start()

    # --- for the reader --------------------------------------------------------------------------

    def staged(self, least: int, wait_s: float) -> dict[int, StagedFile]:
        """The files from ``least`` on; waits for one. Raises SourceError if staging failed."""
        with self._changed:
            self._wanted = True
            self._changed.wait_for(lambda: self._error or self._files(least), wait_s)
            self._wanted = False
            if self._error is not None:
                raise self._error
            return self._files(least)

    def remove_below(self, number: int) -> None:
        """The batches of the files before this one are committed. Raises SourceError."""
        with self._changed:
            self._folder.remove_below(number)
            for done in [each for each in self._oldest if each < number]:
                del self._oldest[done]

    def published_before(self, least: int, wall_ns: int) -> bool:
        """True if a file from ``least`` on may have a message that was published before then."""
        with self._changed:
            return any(self._oldest.get(each, 0) <= wall_ns for each in self._files(least))

    @property
    def quiet_s(self) -> float:
        """Seconds in which a node could have sent messages and has not; 0 until those that came
        are staged, which takes long on a busy disk.
        """
        since = self._quiet_since_ns
        return 0.0 if since is None else (SYSTEM_CLOCK.monotonic_ns() - since) / SECOND

    def stop(self) -> bool:
        """Give back what is not staged, and close the connections. False if a file is still being
        written, on a disk that takes long.
        """
        self._stopping = True
        self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        settings = self._settings
        try:
            with Consumer(
                settings.topic,
                settings.channel,
                nsqd_tcp_addresses=settings.nodes,
                lookupd_http_addresses=settings.lookupd,
                config=settings.client_config(),
            ) as consumer:
                while not self._stopping:
                    self._turn(consumer)
                consumer.max_in_flight = 0  # else nodes would send again what is given back
                self._pile.give_back()
        except SourceError as error:
            self._fail(error)
        except Exception as error:  # whatever it is: no query may wait for a thread that has ended
            self._fail(SourceError(f"{settings.where} cannot be read: {why(error)}"))

    def _turn(self, consumer: Consumer) -> None:
        allowed = self._settings.in_flight_max if self._has_room() else 0
        if consumer.max_in_flight != allowed:
            consumer.max_in_flight = allowed
        delivery = consumer.get_delivery(_POLL_S)
        now = SYSTEM_CLOCK.monotonic_ns()
        if delivery is not None:
            self._quiet_since_ns = None
            self._pile.add(delivery, now)
        if self._pile.rows and self._is_due(consumer, now, more=delivery is not None):
            self._stage()
            self._quiet_since_ns = SYSTEM_CLOCK.monotonic_ns()
        self._watch(consumer, now)

    def _has_room(self) -> bool:
        folder = self._folder
        return len(folder.files) < FILES_MAX and folder.nbytes < self._settings.staged_bytes_max

    def _is_due(self, consumer: Consumer, now: int, *, more: bool) -> bool:
        pile, settings = self._pile, self._settings
        full = pile.nbytes >= settings.file_bytes or pile.rows >= settings.in_flight_max
        waited = now - pile.since_ns >= (_GATHER_WANTED_NS if self._wanted else _GATHER_NS)
        return full or waited or (consumer.is_starved and not more)

    def _stage(self) -> None:
        deliveries = self._pile.take()
        if not deliveries:
            return
        try:
            self._file(deliveries)
        except Exception as error:  # whatever it is, others need not wait for the time-out
            _requeue(deliveries)
            reason = error if isinstance(error, StorageError) else why(error)
            raise SourceError(
                f"messages of {self._settings.where} cannot be staged: {reason}. They were given "
                "back to the channel"
            ) from error
        # Only now: what a consumer has finished is nowhere but in this file.
        for delivery in deliveries:
            delivery.finish()

    def _file(self, deliveries: list[Delivery]) -> None:
        """Write them to a file. Raises StorageError, and what the columns may raise."""
        oldest = min(time for each in deliveries for time, *_ in each.block.fields())
        batch = record_batch(deliveries)
        with self._changed:
            number = self._folder.write(batch, self._least)
            self._oldest[number] = oldest
            self._changed.notify_all()

    def _watch(self, consumer: Consumer, now: int) -> None:
        """Raise SourceError when no node could be reached for as long as the option says.

        That nsqlookupd knows no node with the topic is not an error: it may come.
        """
        links = consumer.connections.values()
        self._alone_since_ns = None if links else self._alone_since_ns or now
        timeout_s = self._settings.timeout_s
        is_given_up = now - (self._alone_since_ns or now) >= timeout_s * SECOND
        may_come = any(each.ready for each in links)
        # Where nothing may come, that nothing comes does not show that the channel is empty.
        if self._quiet_since_ns is not None and not may_come and not is_given_up:
            self._quiet_since_ns = now
        if is_given_up and consumer.last_error is not None:
            raise SourceError(
                f"no node of {self._settings.where} can be reached: {consumer.last_error} (tried "
                f"for {timeout_s:g} s; option timeout); start it and run the command again"
            )

    def _fail(self, error: SourceError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _files(self, least: int) -> dict[int, StagedFile]:
        return {number: each for number, each in self._folder.files.items() if number >= least}


class Pile:
    """Deliveries that wait for their file, as they came; none is answered yet."""

    def __init__(self) -> None:
        self._deliveries: list[Delivery] = []
        self.rows = 0
        self.nbytes = 0
        """Bytes of frames, which is what they take of memory."""
        self.since_ns = 0
        """The time at which the first of the deliveries came."""

    def add(self, delivery: Delivery, now_ns: int) -> None:
        """Add deliveries that have come."""
        if not self._deliveries:
            self.since_ns = now_ns
        self._deliveries.append(delivery)
        self.rows += len(delivery)
        self.nbytes += len(delivery.block.frames())

    def take(self) -> list[Delivery]:
        """All of them, but for those whose connection is gone: they come again over another."""
        taken = [delivery for delivery in self._deliveries if delivery.is_alive]
        self._deliveries.clear()
        self.rows = self.nbytes = 0
        return taken

    def give_back(self) -> None:
        """Let others have them, at once and without a backoff."""
        _requeue(self.take())


def _requeue(deliveries: list[Delivery]) -> None:
    """Give these back, which is nobody's failure."""
    for delivery in deliveries:
        delivery.requeue(0, backoff=False)


def record_batch(deliveries: list[Delivery]) -> pa.RecordBatch:
    """The messages of at least one delivery, in their order."""
    times: list[int] = []
    attempts: list[int] = []
    ids: list[str] = []
    bodies: list[bytes] = []
    nodes: list[str] = []
    for delivery in deliveries:
        came = zip(*delivery.block.fields(), strict=True)
        some_times, some_attempts, some_ids, some_bodies = map(list, came)
        times += [time // 1000 for time in some_times]
        attempts += some_attempts
        ids += [identifier.decode("ascii", "replace") for identifier in some_ids]
        bodies += some_bodies
        nodes += [delivery.address] * len(delivery)
    arrays = [
        pa.array(bodies, TYPES["body"]),
        pa.array(ids, TYPES["id"]),
        pa.array(times, pa.int64()).cast(TYPES["timestamp"]),
        pa.array(attempts, TYPES["attempts"]),
        pa.array(nodes, TYPES["node"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
