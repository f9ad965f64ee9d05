"""The folder of an archive before its query starts: what is there is carried over, or refused.

Spark's file sink keeps a log of the files that count, ``_spark_metadata``. Files of Arrow are not
in it, and with it Spark's readers would not see them; without it they see what a crash has left
behind. So the files that the log does not list are removed, then it is set aside. If it has a batch
that the checkpoint does not call done, that is noted there: else the batch would come again. Tasks
of a driver that was killed may write on for a while, so each start removes what is not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import StorageError
from penstock.spark.compaction import sink_log
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import own
from penstock.storage.files.disk import OsDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.archive.target import Target

SET_ASIDE: Final = "_spark_metadata_before_arrow"
"""The log of Spark's sink, which nobody reads any more."""
_OF_SPARK: Final = "part-"
_DONE: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""A file of the checkpoint's log of batches that are done, of a query that keeps no state."""


def prepare(spark: SparkSession, archive: Target, checkpoint: str) -> None:
    """Carry an archive of Spark's sink over. Raises SourceError for one that belongs to another
    checkpoint, or that cannot be carried over.
    """
    folder = own.local_folder(archive.root)
    if folder is None:
        _require_none_of_spark(archive.root)
    elif own.log_of_sink(spark, archive.root):
        own.require_checkpoint(spark, archive.root, checkpoint)
        _carry_over(spark, folder, checkpoint)
    elif (folder / SET_ASIDE).is_dir():
        with _reported():
            _remove_left_behind(folder, folder / SET_ASIDE)
    if own.last_planned(spark, checkpoint) < 0:
        _require_known(archive)


def _carry_over(spark: SparkSession, folder: Path, checkpoint: str) -> None:
    place = own.local_folder(checkpoint)
    if place is None:
        raise _not_carried_over(str(folder))
    log, written = folder / sink_log.FOLDER, own.last_batch(own.log_of_sink(spark, str(folder)))
    disk = OsDisk()
    with _reported():
        if written > own.last_done(spark, checkpoint):
            disk.replace_file(str(place / "commits" / str(written)), _DONE.encode())
        _remove_left_behind(folder, log)
        disk.rename(str(log), str(folder / SET_ASIDE))
        disk.sync_directory(str(folder))


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise SourceError(f"the archive of Spark's writer is not carried over: {error}") from None


def _remove_left_behind(folder: Path, log: Path) -> None:
    """Remove files of Spark's sink that its log does not list."""
    # By their names, each of which Spark makes once: the archive may have been moved.
    listed = {file.name for file in sink_log.listed(log)}
    for file in folder.rglob(f"{_OF_SPARK}*"):
        if file.is_file() and file.name not in listed:
            OsDisk().remove(str(file))


def _not_carried_over(root: str) -> SourceError:
    return SourceError(
        f"{root} holds an archive of Spark's writer, which is carried over only on this machine: "
        'give writer = "spark" in [sink] to go on as before, or another folder and another '
        "checkpoint"
    )


def _require_none_of_spark(root: str) -> None:
    """Raise SourceError for a folder elsewhere that Spark's sink wrote to; pyarrow is asked, as
    Spark may have no jar of that file system.
    """
    from penstock.spark.archive.store import Store

    if Store.open(root).has(sink_log.FOLDER):
        raise _not_carried_over(root)


def _require_known(archive: Target) -> None:
    """Raise SourceError for files whose names do not say what they hold, beside a new checkpoint:
    what is in them would be written again.
    """
    from penstock.spark.archive.store import Store

    others = Store.open(archive.root).files(lambda _: False).others
    if others:
        raise SourceError(
            f"{archive.root} already holds rows that were written with another checkpoint, in "
            f"{len(others)} files such as {others[0]}; give that checkpoint or another folder"
        )
