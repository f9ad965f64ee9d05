"""``format("nsq")`` with ``mode=channel``: micro-batches of staged files.

An offset is the number of a file. A batch is a range of numbers, which Spark writes down before it
runs it, and files stay until the next batch is planned: so a batch that is run again has the same
rows. That ``start`` of ``latestOffset`` is in the commit log by then is what removes files.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.distribution import pip_install
from penstock.core.errors import LockedError
from penstock.core.units import SECOND
from penstock.spark.channel import folder as staging
from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.channel.folder import Folder, StagedFile
from penstock.spark.errors import LostError, SourceError
from penstock.spark.read.decode import arrow_schema
from penstock.spark.warn_once import WarnOnce

if TYPE_CHECKING:
    from penstock.spark.channel.stager import Stager

SPLIT_BYTES: Final = 32 << 20
_IDLE_WAIT_S: Final = 0.1
_LOCK_POLL_S: Final = 0.05
QUIET_S: Final = 5.0
"""A channel that gave nothing for this time counts as empty in a run of AvailableNow."""
# Of this process: a Python worker of Spark serves many tasks.
_once = WarnOnce()


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(None)
        self.numbers = tuple(numbers)


class ChannelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives in the planner process for the whole query; copies of it read in the tasks."""

    def __init__(self, settings: ChannelSettings, columns: Sequence[str]) -> None:
        self.settings = settings
        self.columns = columns
        self._folder: Folder | None = None
        self._stager: Stager | None = None
        self._until_ns: int | None = None
        self._has_ended = False
        self._got_sigterm = False
        self._reported: dict[str, Any] | None = None

    # --- beside the driver -----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """The first file that is there: what an earlier query has left belongs to this one."""
        folder = self._opened()
        return self._offset(min(folder.files, default=0))

    def getDefaultReadLimit(self) -> ReadLimit:
        settings = self.settings
        if settings.records_max is not None:
            return ReadMaxRows(settings.records_max)
        return (
            ReadAllAvailable() if settings.bytes_max is None else ReadMaxBytes(settings.bytes_max)
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix this run's end: what was published until now."""
        self._until_ns = SYSTEM_CLOCK.wall_ns()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. ``start`` is already committed."""
        if self._has_ended:
            return start
        folder = self._opened()
        first = self._first(start, folder)
        if self._stager is None:
            self._catch_sigterm()
            self._stager = _stager(self.settings, folder, first)
        stager = self._stager
        stager.remove_below(first)
        files = self._await(stager, first)
        if self._until_ns is not None and not files:
            # What comes from now on is the next run's, for which it is not to wait for a time-out.
            self._has_ended = True
            stager.stop()
        self._reported = self._offset(max(files, default=first - 1) + 1)
        return self._offset(self._admitted(files, first)) if files else start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The last staged file, for the lag shown in the query's progress."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        folder = self._opened()
        _require_ours(end)
        if end["staging"] != folder.id:
            # Files of these numbers are of another query: they are not this batch.
            self._elsewhere(end, folder)
            return [FilesPartition(())]
        planned = range(self._first(start, folder), end["file"])
        there = [number for number in planned if number in folder.files]
        if len(there) < len(planned):
            sentence = staging.missing(folder.path, sorted(set(planned) - set(there)))
            if self.settings.fail_on_data_loss:
                raise SourceError(sentence)
            _once.warn(f"{sentence} (skipped)")
        splits = split(there, folder.files, self.settings.partitions_min)
        # Spark reads one partition of nothing when it is given none.
        return [FilesPartition(numbers) for numbers in splits] or [FilesPartition(())]

    def stop(self) -> None:
        """Give back to the channel what is not staged."""
        stager, self._stager = self._stager, None
        has_ended = stager is None or stager.stop()
        folder, self._folder = self._folder, None
        if folder is not None and has_ended:
            # Else it stays locked until this process ends: the next query would give the number of
            # the file that is being written to another one.
            folder.close()
        if self._got_sigterm:
            os._exit(128 + signal.SIGTERM)  # PySpark would log that the driver has gone

    def _catch_sigterm(self) -> None:
        """Outlive the SIGTERM that Spark sends right before it closes the socket.

        Its end leads to ``stop``. A process that died of the signal would leave messages in flight
        until they time out. A second signal ends it at once.
        """

        def note(*_: object) -> None:
            self._got_sigterm = True
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, note)

    def _opened(self) -> Folder:
        if self._folder is None:
            folder, settings = Folder(self.settings.staging), self.settings
            # The process of a query that has just ended may take a moment to let go of it.
            deadline = SYSTEM_CLOCK.monotonic_ns() + int(settings.timeout_s * SECOND)
            while True:
                try:
                    folder.open(settings.topic, settings.channel)
                    break
                except LockedError:
                    if SYSTEM_CLOCK.monotonic_ns() >= deadline:
                        raise SourceError(
                            f"stagingLocation {folder.path} is in use by another query: give each "
                            "query a folder that no other has"
                        ) from None
                time.sleep(_LOCK_POLL_S)
            self._folder = folder
        return self._folder

    def _offset(self, number: int) -> dict[str, Any]:
        assert self._folder is not None
        return {"staging": self._folder.id, "file": number}

    def _first(self, start: Mapping[str, Any], folder: Folder) -> int:
        """The number of the first file behind an offset; the first there is, in another folder."""
        _require_ours(start)
        if start["staging"] == folder.id:
            return int(start["file"])
        self._elsewhere(start, folder)
        return min(folder.files, default=0)

    def _elsewhere(self, offset: Mapping[str, Any], folder: Folder) -> None:
        """Raise SourceError for an offset of another folder; with failOnDataLoss=false, warn."""
        sentence = (
            f"the checkpoint belongs to another stagingLocation than {folder.path} (id "
            f"{offset['staging']}, this one has {folder.id}): what was staged there and not read "
            "yet would be left out. Name that folder, or set failOnDataLoss=false to go on with "
            "this one"
        )
        if self.settings.fail_on_data_loss:
            raise SourceError(sentence)
        _once.warn(f"{sentence} (gone on)")

    def _await(self, stager: Stager, first: int) -> dict[int, StagedFile]:
        """The files to read; a run of AvailableNow waits for them until the channel is empty."""
        files = stager.staged(first, _IDLE_WAIT_S)
        if self._until_ns is None:
            return files
        while not files and stager.quiet_s < QUIET_S and not self._got_sigterm:
            files = stager.staged(first, _IDLE_WAIT_S)
        return files if files and stager.published_before(first, self._until_ns) else {}

    def _admitted(self, files: Mapping[int, StagedFile], first: int) -> int:
        """The number behind the files of one micro-batch: as many as limits allow, at least one."""
        settings = self.settings
        rows = nbytes = 0
        end = first
        for number, file in sorted(files.items()):
            rows += file.rows
            nbytes += file.nbytes
            too_many = settings.records_max is not None and rows > settings.records_max
            too_much = settings.bytes_max is not None and nbytes > settings.bytes_max
            if end > first and (too_many or too_much):
                break
            end = number + 1
        return end

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the options alone."""
        return {"settings": self.settings, "columns": self.columns}

    # --- in the tasks ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilesPartition)
        schema = arrow_schema(self.columns)
        for number in partition.numbers:
            try:
                batches = staging.read(self.settings.staging, number)
            except LostError as lost:
                if self.settings.fail_on_data_loss:
                    raise
                _once.warn(f"{lost} (skipped)")
                continue
            for batch in batches:
                columns = [self._column(batch, name) for name in self.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name == "topic":
            return pa.repeat(pa.scalar(self.settings.topic, pa.string()), batch.num_rows)
        return batch.column(name)


def _require_ours(offset: Mapping[str, Any]) -> None:
    """Raise SourceError for an offset of the log, as a checkpoint of before may have it."""
    if not offset.keys() >= {"staging", "file"}:
        raise SourceError(
            "the checkpoint has offsets of another source than mode=channel: give this query a new "
            "checkpoint"
        )


def split(numbers: Sequence[int], files: Mapping[int, StagedFile], least: int) -> list[list[int]]:
    """The files in runs of about ``SPLIT_BYTES``; ``least`` of them if there are as many files."""
    total = sum(files[number].nbytes for number in numbers)
    target = min(SPLIT_BYTES, -(-total // least))
    runs: list[list[int]] = []
    room = 0
    for number in numbers:
        if room <= 0:
            runs.append([])
            room = target
        runs[-1].append(number)
        room -= files[number].nbytes
    return runs


def _stager(settings: ChannelSettings, folder: Folder, first: int) -> Stager:
    """The stager, which stands on NSQ's client: a zip for executors is without."""
    try:
        from penstock.spark.channel.stager import Stager
    except ImportError as error:
        raise SourceError(
            f"mode=channel needs Penstock itself beside the driver ({error}): "
            f"{pip_install('spark')}"
        ) from error
    return Stager(settings, folder, first)
