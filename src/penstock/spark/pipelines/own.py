"""Things that belong to one pipeline alone: its sink's folder, its group at the nodes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.spark import compaction
from penstock.spark.archive.names import FileName
from penstock.spark.compaction import sink_log
from penstock.spark.errors import SourceError, explain
from penstock.spark.pipelines.spec import FILES, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"([a-zA-Z][\w+.-]*):")
"""The beginning of a place that Hadoop does not take for a path: ``s3a:``, ``dbfs:``, ``file:``."""
_NO_CLASS: Final = re.compile("ClassNotFoundException|No FileSystem for scheme")
_JARS: Final = {
    "s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "hadoop-gcp",
}  # fmt: skip
"""Hadoop's jars of file systems that PySpark comes without."""


@contextmanager
def alone(sink: Sink) -> Iterator[None]:
    """Keep other pipelines and compactions away from the sink's files, if they are on this machine.

    A compaction that was killed is finished first. Raises LockedError, StorageError.
    """
    finish_compaction(sink)
    folder = _local_files(sink)
    with nullcontext() if folder is None else compaction.held(folder):
        yield


def finish_compaction(sink: Sink) -> None:
    """Finish a compaction of the sink's files that was killed: Spark would go on from its log."""
    folder = _local_files(sink)
    if folder is not None:
        compaction.finish(folder)


def _local_files(sink: Sink) -> Path | None:
    path = sink.options.get("path")
    return local_folder(path) if path and sink.format in FILES else None


def local_folder(path: str) -> Path | None:
    """A folder of Spark's as a path, None when it is on another machine."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Path(path)
    rest = path[scheme.end() :]
    # ``file:///lake`` and ``file:/lake`` are the same; another host may stand behind two slashes.
    rest = rest.removeprefix("//") if rest.startswith("///") else rest
    is_local = scheme[1].lower() == "file" and not rest.startswith("//")
    return Path(rest) if is_local else None


def is_local(path: str) -> bool:
    """True for a folder on this machine."""
    return local_folder(path) is not None


def require(spark: SparkSession, to: str | None, checkpoint: str) -> None:
    """Raise SourceError when the folder ``to`` was written with another checkpoint, or from Arrow:
    Spark's log would hide such files.
    """
    if to is None:
        return
    require_checkpoint(spark, to, checkpoint)
    folder = local_folder(to)
    if not log_of_sink(spark, to) and folder is not None and any(map(_is_of_arrow, _walk(folder))):
        raise SourceError(
            f"{to} holds an archive that was written from Arrow, which a query with SQL or options "
            "of Spark's writer cannot go on with: give another folder and another checkpoint"
        )


def require_checkpoint(spark: SparkSession, to: str, checkpoint: str) -> None:
    """Raise SourceError when Spark's sink wrote to the folder with another checkpoint."""
    require_own(to, log_of_sink(spark, to), _files(spark, checkpoint, "offsets"))


def log_of_sink(spark: SparkSession, to: str) -> list[str]:
    """The files of the log that Spark's sink keeps of a folder, if it wrote there."""
    return _files(spark, to, sink_log.FOLDER)


def _is_of_arrow(name: str) -> bool:
    return FileName.read(name) is not None


def _walk(folder: Path) -> Iterator[str]:
    return (name for _, _, names in os.walk(folder) for name in names)


def require_own(to: str, written: Iterable[str], planned: Iterable[str]) -> None:
    """Raise SourceError when the sink's log has batches that the checkpoint has not planned yet.

    The sink skips batches that it has in its log, and messages in them would be lost. A query that
    is killed between the two logs is let through: it plans a batch before it writes it.
    """
    if last_batch(written) > last_batch(planned):
        raise SourceError(
            f"{to} already holds rows that were written with another checkpoint; "
            "give that checkpoint or an empty folder"
        )


def last_batch(names: Iterable[str]) -> int:
    """The highest batch among the files of a log of Spark's (``7``, ``9.compact``), or -1."""
    batches = (name.removesuffix(".compact") for name in names)
    return max((int(batch) for batch in batches if batch.isdecimal()), default=-1)


def _files(spark: SparkSession, folder: str, log: str) -> list[str]:
    """The content of ``folder/log``, found as Spark finds it: on any of Hadoop's file systems."""
    path, files = place(spark, folder, log)
    if not files.exists(path):
        return []
    return [str(status.getPath().getName()) for status in files.listStatus(path)]


def place(spark: SparkSession, folder: str, name: str) -> tuple[Any, Any]:
    """Hadoop's path of ``folder/name``, and its file system."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder, name)
    return path, file_system(spark, path)


def file_system(spark: SparkSession, path: Any) -> Any:
    """The file system of a path of Hadoop's. Raises SourceError if Spark cannot open it."""
    from py4j.protocol import Py4JJavaError

    try:
        return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    except Py4JJavaError as error:
        remedy = ""
        if _NO_CLASS.search(str(error.java_exception)):
            jvm: Any = spark._jvm
            jar = _JARS.get(path.toUri().getScheme())
            version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            such = f', such as "org.apache.hadoop:{jar}:{version}"' if jar else ""
            remedy = f". Name the jar of this file system in packages of [run]{such}"
        raise SourceError(f"Spark cannot open {path}: {explain(error)}{remedy}") from None


def text(spark: SparkSession, folder: str, name: str) -> str | None:
    """The text of the file ``folder/name``; None if it is not there."""
    path, files = place(spark, folder, name)
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        return str(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # type: ignore[union-attr]
    finally:
        stream.close()


def last_planned(spark: SparkSession, checkpoint: str) -> int:
    """The last batch that was planned, -1 before the first."""
    return last_batch(_files(spark, checkpoint, "offsets"))


def last_done(spark: SparkSession, checkpoint: str) -> int:
    """The last batch that was done, -1 before the first."""
    return last_batch(_files(spark, checkpoint, "commits"))


def has_unfinished_batch(spark: SparkSession, checkpoint: str) -> bool:
    """True if a batch was planned and not done: it will come again."""
    return last_planned(spark, checkpoint) > last_done(spark, checkpoint)


def group_name(topic: str, checkpoint: str, name: str) -> str:
    """The broker-side group of one pipeline: the same whenever its checkpoint is resumed."""
    place = checkpoint if _SCHEME.match(checkpoint) else os.path.abspath(checkpoint)
    return f"{name}-{hashlib.sha256(f'{topic} {place}'.encode()).hexdigest()[:12]}"
