"""``session()``: a local Spark that is ready for the source, without ceremony.

On a cluster use the session that spark-submit gives; ``settings_for`` shows what ours adds.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

from penstock.spark.errors import SourceError, explain
from penstock.spark.requirements import require_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.jvm import Gateway

# The default manager forks chmod and readlink some 20 times a micro-batch where the native Hadoop
# library is missing, which is everywhere PySpark comes from pip.
_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_HEAP = "1g"
_LOOK_EVERY_S = 0.2
# The settings that Spark itself does not show (spark.redaction.regex). Command lines all users see.
_SECRET: Final = re.compile(r"(?i)secret|password|token|access[.]?key")

# The JVM that this process started; PySpark keeps one a process.
_jvm: Gateway | None = None


def settings_for(master: str) -> dict[str, str]:
    """The Spark settings of ``session``; any can be overridden there."""
    return {
        "spark.master": master,
        "spark.app.name": "penstock",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
        # Over TCP the two sides wait for each other's late acknowledgements: tens of ms a task.
        "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        "spark.sql.warehouse.dir": "spark-warehouse",
        # A write to a few folders at a time needs no sort by folder first.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
    }


def session(
    master: str = "local[*,4]",
    *,
    settings: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
) -> SparkSession:
    """The running session, or a new local one.

    ``local[*,4]`` retries a failed task, which plain ``local[*]`` does not. ``log`` is a file that
    takes the output of the JVM and its workers. Raises PackagesMissingError, NoJavaError or
    SparkStartError.
    """
    require_packages()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    wanted = settings_for(master) | dict(settings or {})
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    if "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_HOME" in os.environ:
        return builder.getOrCreate()
    return _on_own_jvm(builder, wanted, log)


def _on_own_jvm(
    builder: SparkSession.Builder, wanted: Mapping[str, str], log: IO[bytes] | None
) -> SparkSession:
    global _jvm
    from penstock.spark.java import find_java
    from penstock.spark.jvm import announced, launch

    shown = {key: value for key, value in wanted.items() if not _SECRET.search(key)}
    _jvm = launch(find_java(), wanted.get("spark.driver.memory", _HEAP), shown, log)
    with announced(_jvm):
        return builder.getOrCreate()


def run(query: StreamingQuery) -> None:
    """Return when the query has ended, which Ctrl-C asks for. Raises SourceError in one line.

    PySpark's own answer to Ctrl-C speaks to Java within a call to Java, which fails with pages of
    traceback. For the main thread, which alone gets signals.
    """
    asked = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    try:
        while query.isActive and not asked.wait(_LOOK_EVERY_S):
            pass
        query.stop()
    finally:
        signal.signal(signal.SIGINT, before)
    error = query.exception()
    if error is not None:
        raise SourceError(explain(error)) from None


def say_errors_once() -> None:
    """Have PySpark not log, on stderr and with all of Java's stack, the errors that it raises.

    For commands, which say an error in one line.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def stop(spark: SparkSession, timeout_s: float = 60.0) -> None:
    """End a session and the JVM that ``session`` started for it; another may follow.

    A JVM that has died or does not answer is not an error; one that is there after ``timeout_s``
    is killed. Writing an archive of its classes at its end takes it half a minute of a processor.
    """
    global _jvm
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Py4JError, OSError), warnings.catch_warnings():
        # PySpark warns of a JVM that is gone, which is what is wanted.
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()
    # An end cut short leaves these, and PySpark would go on with them.
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if _jvm is None:
        return
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    _jvm.close(timeout_s)
    _jvm = None
