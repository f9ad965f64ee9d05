"""Spark's classes in one file, with which the JVMs of the tests start in half the time.

`make test` writes it once: ``python -m tools.harness.class_archive``. It fits one Java and one
installation of PySpark; JVMs that it does not fit, or that do not find it, start without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(__file__).parents[2] / "build" / "spark-classes.jsa"
# The optimizing compiler of Spark's JVMs takes longer than the tests; without it they need 40 %
# less processor time.
QUICK: Final = "-XX:TieredStopAtLevel=1"
_END_S: Final = 300.0  # beside other work the JVM takes a minute and more to write it


def java_options() -> str:
    """The options for every JVM of the tests, as ``JDK_JAVA_OPTIONS`` takes them."""
    if " " in str(ARCHIVE):
        return QUICK
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds*=off"


def write() -> None:
    """Write the archive: one that is written half way is not left under its name."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder, ARCHIVE.name)
        options = f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off"
        subprocess.run(
            [sys.executable, "-m", "tools.harness.class_archive", folder],
            env=os.environ | {"JDK_JAVA_OPTIONS": options},
            timeout=2 * _END_S,
            check=True,
        )
        made.replace(ARCHIVE)


def use_spark(folder: Path) -> None:
    """Load the classes that most tests need: a read, a stream, Parquet, Python workers."""
    from penstock.spark.session import session, stop

    from .fake_log_server import FakeLogServer

    with FakeLogServer() as server, (folder / "log").open("wb") as log:
        server.queue("t").append([b"%d" % number for number in range(100)])
        spark = session("local[2,2]", log=log, settings={"spark.sql.shuffle.partitions": "2"})
        options = {
            "topic": "t",
            "nsqd_http_address": server.address,
            "startingOffsets": "earliest",
        }
        spark.read.format("nsq").options(**options).load().groupBy("topic").count().collect()
        rows = spark.readStream.format("nsq").options(**options).load()
        query = rows.writeStream.format("parquet").trigger(availableNow=True)
        places = {"path": f"{folder}/rows", "checkpointLocation": f"{folder}/checkpoint"}
        query.start(**places).awaitTermination()
        assert spark.read.parquet(places["path"]).count() == 100
        stop(spark, _END_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        use_spark(Path(sys.argv[1]))
    else:
        write()
