"""Speed of Spark's reads from and writes to Penstock, beside Kafka and Parquet.

The same messages lie in an nsqd, in Parquet and, with ``--kafka`` and ``--connector``, in a local
Kafka. Every case is measured by turns, after a round that does not count and that compiles the
JVM's code; medians and ranges are printed. Rows are counted wherever they can be.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import publish, size_of
from kafka_server import PARTITIONS, run_kafka

from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.spec import Run, Spec
from penstock.spark.pipelines.spec import Sink as To
from penstock.spark.pipelines.spec import Source as From
from penstock.spark.session import session, stop
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv, run_nsqd

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS = 10
SMALL_BATCHES = 30
SINK_FILES = 10
FILES_PER_BATCH = 2
TWO = ("body", "offset")


@dataclass(frozen=True)
class Source:
    """One of the systems under test, as Spark's reader sees it."""

    name: str
    format: str
    options: dict[str, str]
    body: str
    limit: str
    """The option for the most messages of a micro-batch."""
    wide: dict[str, str]
    """The options for one partition, or one for each of eight."""
    narrow: dict[str, str]
    small: dict[str, str]
    """The options for the topic of few messages."""

    def batch(self, spark: SparkSession, columns: int, partitions: int) -> DataFrame:
        more = self.wide if partitions > 1 else self.narrow
        if self.format == "nsq" and columns == len(TWO):
            more = more | {"columns": ",".join(TWO)}
        rows = spark.read.format(self.format).options(**self.options, **more).load()
        return rows.select(self.body, "offset") if columns == len(TWO) else rows

    def stream(self, spark: SparkSession, most: int, more: dict[str, str]) -> DataFrame:
        options = self.options | more | {"startingOffsets": "earliest", self.limit: str(most)}
        return spark.readStream.format(self.format).options(**options).load()


def nsq(address: str) -> Source:
    return Source(
        "penstock", "nsq", {"nsqd_http_address": address}, "body", "maxRecordsPerTrigger",
        {"topic": "bench", "minPartitions": str(PARTITIONS)},
        {"topic": "bench", "minPartitions": "1"}, {"topic": "small"},
    )  # fmt: skip


def kafka(address: str) -> Source:
    return Source(
        "kafka", "kafka", {"kafka.bootstrap.servers": address}, "value", "maxOffsetsPerTrigger",
        {"subscribe": "wide"}, {"subscribe": "narrow"}, {"subscribe": "small"},
    )  # fmt: skip


@dataclass(frozen=True)
class Sink:
    """One of the systems under test, as Spark's writer sees it."""

    name: str
    format: str
    options: dict[str, str]
    body: str = "body"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, action="append", help="default: 1, and 2")
    parser.add_argument("--per-batch", type=int, default=500_000, help="rows of a micro-batch")
    parser.add_argument("--sink-rows", type=int, default=500_000, help="rows of a written batch")
    parser.add_argument("--only", action="append", default=[], help="cases that begin so")
    parser.add_argument("--kafka", type=Path, help="a folder with the jars of Kafka's broker")
    parser.add_argument("--connector", type=Path, help="one with those of Spark's Kafka connector")
    given = parser.parse_args()
    if given.sink_rows > given.rows:
        parser.error("--sink-rows are taken from --rows, and can be no more")
    # Installed packages have bytecode: Spark's many Python processes compile nothing either here.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with ExitStack() as stack:
        nsqd = stack.enter_context(run_nsqd())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
        publish(nsqd.tcp, given.rows, given.size, mixed=False)
        publish(nsqd.tcp, SMALL_ROWS * SMALL_BATCHES, given.size, mixed=False, topic="small")
        sources = [nsq(nsqd.http)]
        namesrv = stack.enter_context(run_mqnamesrv())
        stack.enter_context(run_mqbroker(name_server=namesrv.rocketmq))
        sinks = [
            Sink("penstock", "nsq", {"nsqd_http_address": nsqd.http}),
            Sink("once", "nsq", {"nsqd_http_address": nsqd.http, "exactlyOnce": "true"}),
            Sink("rocketmq", "rocketmq", {"namesrvAddr": namesrv.rocketmq}),
        ]
        if given.kafka is not None:
            sources.append(kafka(stack.enter_context(run_kafka(given.kafka))))
            sinks.append(Sink("kafka", "kafka", sources[-1].options, "value"))
        for number, cores in enumerate(given.cores or [1, 2]):
            bench = Bench(given, sources, sinks, folder, cores)
            try:
                if not number:
                    bench.fill()
                bench.run()
            finally:
                bench.close()


class Bench:
    """The cases on a Spark with this number of cores."""

    def __init__(
        self,
        given: argparse.Namespace,
        sources: list[Source],
        sinks: list[Sink],
        folder: Path,
        cores: int,
    ) -> None:
        self._given = given
        self._sources = sources
        self._sinks = sinks
        self._folder = folder
        self._cores = cores
        self._scratch = 0
        self.notes: dict[str, float] = {}
        """Figures of the last work that was measured, beside its rate."""
        jars = "" if given.connector is None else ",".join(map(str, given.connector.glob("*.jar")))
        self._log = (folder / f"spark-{cores}.log").open("wb")
        settings = {"spark.jars": jars, "spark.driver.memory": "3g"}
        self._spark = session(f"local[{cores}]", log=self._log, settings=settings)

    def close(self) -> None:
        stop(self._spark)
        self._log.close()

    def fill(self) -> None:
        """Copy the messages to Parquet, and to Kafka with all of one topic in one partition."""
        ours = self._sources[0].batch(self._spark, 8, PARTITIONS)
        ours.write.parquet(str(self._folder / "bound"))
        found = self._spark.read.parquet(str(self._folder / "bound"))
        assert found.count() == self._given.rows
        written = found.select("body").limit(self._given.sink_rows).repartition(SINK_FILES)
        written.write.parquet(str(self._folder / "written"))
        for source in self._sources[1:]:
            few = self._spark.read.parquet(str(self._folder / "bound")).limit(
                SMALL_ROWS * SMALL_BATCHES
            )
            for topic, rows in {"wide": found, "narrow": found, "small": few}.items():
                columns = (
                    ["body as value"] if topic == "wide" else ["body as value", "0 as partition"]
                )
                rows.selectExpr(*columns).write.format("kafka").options(
                    **source.options, topic=topic
                ).save()

    def run(self) -> None:
        print(f"\n{self._cores} cores, {self._given.rows:,} messages of {self._given.size} bytes")
        for name, contenders in self._cases():
            if any(name.startswith(only) for only in self._given.only or [""]):
                self._measure(name, contenders)

    def _cases(self) -> Iterator[tuple[str, dict[str, Callable[[], float]]]]:
        """Each case with its contenders; a contender gives rows a second, or ms a micro-batch."""
        for columns in (2, 8):
            for partitions in (1, PARTITIONS):
                yield f"noop, {columns} columns, {partitions} partitions", {
                    **{each.name: self._to_noop(each, columns, partitions)
                       for each in self._sources},
                    "parquet": self._bound_to_noop(columns),
                }  # fmt: skip
        for partitions in (1, PARTITIONS):
            yield (
                f"parquet, 8 columns, {partitions} partitions",
                {"archive": self._archive(self._given.rows)}
                | {each.name: self._to_parquet(each, partitions) for each in self._sources},
            )
        yield (
            f"streaming to parquet, {self._given.per_batch:,} rows a micro-batch",
            {"archive": self._archive(self._given.per_batch)}
            | {each.name: self._streaming(each) for each in self._sources},
        )
        yield f"sink, {self._given.sink_rows:,} rows", self._batch_sinks()
        yield (
            f"streaming sink, {self._given.sink_rows * FILES_PER_BATCH // SINK_FILES:,} rows a"
            " micro-batch",
            {each.name: self._stream_sink(each) for each in self._sinks},
        )
        yield (
            f"ms of a micro-batch of {SMALL_ROWS} rows (less is better)",
            {each.name: self._small(each) for each in self._sources},
        )

    def _to_noop(self, source: Source, columns: int, partitions: int) -> Callable[[], float]:
        return lambda: self._rate(
            source.batch(self._spark, columns, partitions).write.format("noop")
            .mode("overwrite").save
        )  # fmt: skip

    def _bound_to_noop(self, columns: int) -> Callable[[], float]:
        found = self._spark.read.parquet(str(self._folder / "bound"))
        rows = found.select(*TWO) if columns == len(TWO) else found
        return lambda: self._rate(rows.write.format("noop").mode("overwrite").save)

    def _to_parquet(self, source: Source, partitions: int) -> Callable[[], float]:
        def write() -> float:
            to = self._new_folder()
            rows = source.batch(self._spark, 8, partitions)
            rate = self._rate(lambda: rows.write.parquet(to))
            self._count(to)
            return rate

        return write

    def _streaming(self, source: Source) -> Callable[[], float]:
        def write() -> float:
            to = self._new_folder()
            rows = source.stream(self._spark, self._given.per_batch, source.wide)
            rate = self._rate(lambda: self._query(rows, to))
            self._count(to)
            return rate

        return write

    def _archive(self, most: int) -> Callable[[], float]:
        """All 8 columns by the tasks themselves, with Spark's usual compression, in no folders."""

        def write() -> float:
            to = self._new_folder()
            nsqd = self._sources[0]
            options = {"topic": "bench", "startingOffsets": "earliest", nsqd.limit: str(most)}
            spec = Spec(
                "bench", From("nsq", nsqd.options | options), To("parquet", {"path": to}),
                Run(0, f"{to}-checkpoint"),
            )  # fmt: skip

            def run() -> None:
                (query,) = Pipeline(spec).start(self._spark, {"availableNow": True})
                query.awaitTermination()

            rate = self._rate(run)
            self._count(to)
            return rate

        return write

    def _small(self, source: Source) -> Callable[[], float]:
        def write() -> float:
            rows = source.stream(self._spark, SMALL_ROWS, source.small)
            progress = self._query(rows, self._new_folder())
            took = [each["durationMs"]["triggerExecution"] for each in progress]
            return float(statistics.median(took))

        return write

    def _batch_sinks(self) -> dict[str, Callable[[], float]]:
        rows = self._spark.read.parquet(str(self._folder / "written")).cache()
        assert rows.count() == self._given.sink_rows
        return {each.name: self._batch_sink(rows, each) for each in self._sinks}

    def _batch_sink(self, rows: DataFrame, sink: Sink) -> Callable[[], float]:
        def write() -> float:
            options = sink.options | {"topic": "sink"}
            if "exactlyOnce" in options:
                self._scratch += 1
                options |= {"writerId": f"bench-{self._cores}", "writerBatch": str(self._scratch)}
            bodies = rows.selectExpr(f"body as {sink.body}")
            save = bodies.write.format(sink.format).mode("append").options(**options).save
            return self._rate(save, self._given.sink_rows)

        return write

    def _stream_sink(self, sink: Sink) -> Callable[[], float]:
        def write() -> float:
            reader = self._spark.readStream.schema("body binary")
            files = reader.option("maxFilesPerTrigger", FILES_PER_BATCH)
            bodies = files.parquet(str(self._folder / "written"))
            query = (
                bodies.selectExpr(f"body as {sink.body}").writeStream.format(sink.format)
                .options(**sink.options, topic="sink", checkpointLocation=self._new_folder())
                .trigger(availableNow=True)
            )  # fmt: skip
            return self._rate(lambda: query.start().awaitTermination(), self._given.sink_rows)

        return write

    def _query(self, rows: DataFrame, to: str) -> list[Any]:
        query = (
            rows.writeStream.format("parquet").option("checkpointLocation", f"{to}-checkpoint")
            .trigger(availableNow=True).start(to)
        )  # fmt: skip
        query.awaitTermination()
        return list(query.recentProgress)

    def _rate(self, work: Callable[[], Any], rows: int | None = None) -> float:
        rows = rows or self._given.rows
        cpu, started = cpu_s(), time.perf_counter()
        work()
        took = time.perf_counter() - started
        self.notes = {"us of CPU a row": 1e6 * (cpu_s() - cpu) / rows}
        return float(rows / took)

    def _count(self, folder: str) -> None:
        found = self._spark.read.parquet(folder).count()
        assert found == self._given.rows, f"{found} rows in {folder}"
        self.notes["bytes a row"] = size_of(Path(folder)) / found

    def _new_folder(self) -> str:
        self._scratch += 1
        return str(self._folder / f"{self._cores}-{self._scratch}")

    def _measure(self, name: str, contenders: dict[str, Callable[[], float]]) -> None:
        """Each contender in turn, after a round that does not count; medians and ranges."""
        found: dict[str, list[float]] = {contender: [] for contender in contenders}
        notes: dict[str, list[dict[str, float]]] = {contender: [] for contender in contenders}
        for number in range(self._given.rounds + 1):
            for contender, work in contenders.items():
                self.notes = {}
                value = work()
                if number:
                    found[contender].append(value)
                    notes[contender].append(self.notes)
        print(f"  {name}")
        first = statistics.median(next(iter(found.values())))
        for contender, values in found.items():
            median = statistics.median(values)
            more = {key: statistics.median(each[key] for each in notes[contender])
                    for key in notes[contender][0]}  # fmt: skip
            told = "".join(f", {value:.2f} {key}" for key, value in more.items())
            print(f"    {contender:9} {median:12,.0f}  ({min(values):,.0f} to {max(values):,.0f})"
                  f"  {next(iter(found))} {first / median:.2f}x{told}", flush=True)  # fmt: skip


def cpu_s() -> float:
    """Processor time of this process and all below it, those that have ended included."""
    parents, times = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            times[int(path.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(times[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main()
