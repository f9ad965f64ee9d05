"""Child of the demo and of ``up``: an embedded Spark that archives, reports, and proves.

Its standard input takes ``begin`` (the topic is there) and ``finish N``: stop once the archive has
reached offset N and examine the Parquet. Its own process keeps Spark's noise and memory apart.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from penstock.cli.live import archive_file
from penstock.cli.live.children import report
from penstock.cli.live.pipeline_run import PipelineRun
from penstock.cli.live.proof import examine
from penstock.cli.pipeline.status import StatusFile
from penstock.core.errors import PenstockError
from penstock.spark.pipelines import Pipeline, own

_POLL_S = 0.1


def main() -> None:
    """``archive_job FOLDER LOOKUPD_HTTP_ADDRESS``: run the folder's pipeline."""
    folder, lookupd = Path(sys.argv[1]), sys.argv[2]
    # An exit, not the default: it runs what stops Spark's JVM and writes the status down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        pipeline = archive_file.load(folder, lookupd)
    except PenstockError as error:
        report(error=str(error))
        sys.exit(1)
    run = PipelineRun(pipeline, folder / "spark-jvm.log")
    try:
        _work(_Job(run, folder / "archive"), run, pipeline)
    except PenstockError as error:
        report(error=str(error))
        sys.exit(1)


def _work(job: _Job, run: PipelineRun, pipeline: Pipeline) -> None:
    """Do the job with the checkpoint and the archive to itself, as ``penstock pipeline run`` has
    them. Raises PenstockError where somebody else has one of them.
    """
    spec = pipeline.spec
    with StatusFile(spec.run.checkpoint) as status, own.alone(spec.sink):
        facts = {"name": spec.name, "source": str(spec.source), "sink": str(spec.sink)}
        status.tell(state="running", at_once=True, **facts)
        ended = {"state": "stopped"}
        try:
            job.work()
        except PenstockError as error:
            ended = {"state": "failed", "error": str(error)}
            raise
        finally:
            run.stop()
            status.tell(at_once=True, **ended)


class _Job:
    def __init__(self, run: PipelineRun, to: Path) -> None:
        self._run = run
        self._to = to
        self._begin = threading.Event()
        self._target: int | None = None

    def work(self) -> None:
        """Start, archive, and when told to, prove."""
        threading.Thread(target=self._listen, daemon=True).start()
        report(doing="starting Java and Spark")
        spark = self._run.start_session()
        report(doing="Spark is up, starting the archive query")
        self._begin.wait()
        self._run.start_query()
        report(doing="the archive query is running", state="running")
        self._archive()
        report(doing="all archived: reading the Parquet back to prove it")
        report(proof=examine(spark, self._to), finished=True)

    def _listen(self) -> None:
        for line in sys.stdin:
            word, _, number = line.partition(" ")
            if word.strip() == "begin":
                self._begin.set()
            else:
                self._target = int(number)

    def _archive(self) -> None:
        """Run until the target is reached; without one, for ever."""
        archived = reached = 0
        # What counts is the position in the log: should rows be lost, the proof must say so.
        while self._target is None or reached < self._target:
            time.sleep(_POLL_S)
            active = self._run.keep_active()
            for batch in self._run.finished():
                archived += batch.rows
                reached = sum(batch.end.values())
                report(archived=archived, batch=batch.batch, rows=batch.rows, rate=batch.rows_per_s)
            if not active:
                raise PenstockError("the archive query ended before its time")


if __name__ == "__main__":
    main()
