"""The pages' programs for Spark over real nodes, and pipelines' files before its analyser."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.cases import run_case
from penstock.spark.pipelines.pipeline import wait_for_sources
from penstock.testing.daemons import RocketMQ, run_rocketmq
from tests.forwarding import create, publish
from tests.page_blocks import sample
from tools.harness.fake_log_server import FakeLogServer
from tools.pages.documentation import DOCS, ROOT, blocks, completed, replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))]


def customers(folder: Path, file: str = "part.parquet", **countries: str) -> Path:
    """The table of customers of the page, with these in this file."""
    table = folder / "customers"
    table.mkdir(exist_ok=True)
    rows = {"customer": [*countries], "country": [*countries.values()]}
    pq.write_table(pa.table(rows), table / file)
    return table


def pipeline(text: str, folder: Path) -> Pipeline:
    """The pipeline of a block; folders that it reads are there, and what it leaves out."""
    (folder / "source").mkdir(exist_ok=True)
    text = text.replace("`run/customers`", f"`{customers(folder, ann='DE')}`")
    text = re.sub(r'(?m)^path = "run/.*"', f'path = "{folder}/source"', text)
    file = folder / "pipeline.toml"
    file.write_text(completed(text))
    return Pipeline.from_file(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_pass_their_tests_and_the_analyser(
    spark: SparkSession, page: Path, tmp_path: Path
) -> None:
    for text in blocks(page, "toml"):
        made = pipeline(text, tmp_path)
        if made.spec.run.packages:  # tests fetch no jars
            with pytest.raises(Exception, match="Failed to find the data source"):
                made.check(spark)
        else:
            made.check(spark)
        for case in made.spec.tests:
            assert [each.lines() for each in run_case(made, spark, case)] == [], case.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_statements_between_the_lines_fit_the_file_above(
    spark: SparkSession, page: Path, tmp_path: Path
) -> None:
    for section in page.read_text().split("\n## "):
        prose = re.sub(r"(?s)```.*?```", "", section)
        for statement in re.findall(
            r"(?s)`(?:query = \")?(select [^`\"]+ from input[^`\"]*)", prose
        ):
            first = re.findall(r"(?s)```toml\n(.*?)```", section)[0]
            text = re.sub(r'(?s)query = (""".*?"""|"[^"]*")', f'query = """{statement}"""', first)
            assert statement in text
            pipeline(text, tmp_path).check(spark)


# --- programs, over real nodes --------------------------------------------------------------------


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMQ]:
    """A broker, which speaks NSQ as well, with messages in the topics of the pages."""
    with run_rocketmq() as rocketmq:
        for topic in ("events", "clicks", "orders", "totals"):
            create(rocketmq.broker, topic, "c")
            publish(rocketmq.broker, topic, [b'{"country": "DE", "amount": 2, "total": 200}'] * 2)
        yield rocketmq


def here(text: str, rocketmq: RocketMQ, folder: Path) -> str:
    """A program with the address of this node in the place of all others, and its files here."""
    own = dict.fromkeys(("127.0.0.1:9876", "ns1:9876;ns2:9876"), rocketmq.address)
    for host, port in product(("lookupd", "here", "there", "127.0.0.1"), (4151, 4161)):
        own[f"{host}:{port}"] = rocketmq.broker.http
    text = replaced(text, own).replace("lookupd_http_address", "nsqd_http_address")
    return re.sub(r'"(?:run|lake|/shared)/', f'"{folder}/', text)


FRAGMENTS = [
    text
    for text in blocks(DOCS / "spark.md", "python")
    if "options(...)" not in text and "127.0.0.1:5151" not in text  # test_tap.py
] + [text for text in blocks(DOCS / "pipelines" / "archive.md", "python") if "start(" in text]


@pytest.mark.parametrize("number", range(len(FRAGMENTS)))
def test_fragments_run(
    spark: SparkSession, rocketmq: RocketMQ, tmp_path: Path, number: int
) -> None:
    text = here(FRAGMENTS[number], rocketmq, tmp_path)
    rows = spark.range(2).selectExpr("cast(id as string) as body")
    rows.createOrReplaceTempView("totals")
    if "query = (" in text:
        rows = streamed(spark, rocketmq)
    names: dict[str, Any] = {"spark": spark, "rows": rows}
    try:
        *first, last = ast.parse(text).body
        exec(ast.unparse(ast.Module(first, [])), names)
        if not isinstance(last, ast.Expr):
            exec(ast.unparse(last), names)
            return
        made = eval(ast.unparse(last), names)
        if hasattr(made, "load") and "topic=" in text and "tls_" not in text:
            assert made.load().schema
        elif hasattr(made, "collect"):
            assert made.collect()
    finally:
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        spark.sql("drop table if exists clicks")


def test_the_lake_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lake = spark.sql("select 'events' as topic, date'2026-01-01' as date, 13 as hour, 'a' as body")
    lake.write.partitionBy("topic", "date", "hour").parquet(f"{tmp_path}/lake")
    text = sample("pipelines/archive.md", "read.parquet").replace('"run/', f'"{tmp_path}/')
    names: dict[str, Any] = {}
    exec(text, names)
    assert names["lake"].count() == 1


def test_a_pipeline_is_started_by_a_program(
    spark: SparkSession, rocketmq: RocketMQ, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.toml"
    own = f'checkpoint = "{tmp_path}/checkpoint"\n'
    topic = here(sample("pipelines.md", 'topic = "orders_de"'), rocketmq, tmp_path)
    file.write_text(f"{topic}\n[run]\n{own}")
    text = sample("pipelines.md", "Pipeline.from_file").replace("metrics.toml", str(file))
    *first, last = text.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(first), names)
    names["queries"][0].processAllAvailable()
    for query in names["queries"]:
        query.stop()
    assert last == "queries[0].awaitTermination()"


def test_a_table_beside_the_stream_has_the_files_of_the_beginning(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    text = sample("pipelines.md", "`run/customers`").replace("127.0.0.1:4151", server.address)
    text = text.replace("[parse]", 'startingOffsets = "earliest"\n\n[parse]')
    text = text.replace('"run/orders"', f'"{tmp_path}/out"')
    text = text.replace("[sink]", f'[run]\ncheckpoint = "{tmp_path}/checkpoint"\n\n[sink]')
    made = pipeline(text, tmp_path)
    orders = server.queue("orders")

    def order(number: int, customer: str) -> None:
        orders.append([b'{"id": %d, "customer": "%s"}' % (number, customer.encode())])

    for first in (1, 3):
        (query,) = made.start(spark, {"processingTime": "0 seconds"})
        order(first, "ann")
        query.processAllAvailable()
        customers(tmp_path, "new.parquet", bob="FR")
        order(first + 1, "bob")
        query.processAllAvailable()
        query.stop()
    rows = spark.read.parquet(f"{tmp_path}/out").collect()
    assert {row.id: row.country for row in rows} == {1: "DE", 2: None, 3: "DE", 4: "FR"}
    (query,) = made.start(spark, {"processingTime": "0 seconds"})
    wait_for_sources(query)
    (tmp_path / "customers" / "new.parquet").unlink()
    order(5, "bob")
    with pytest.raises(Exception, match=r"new\.parquet\. File does not exist"):
        query.processAllAvailable()


def test_a_difference_reads_as_shown(spark: SparkSession, tmp_path: Path) -> None:
    text = sample("pipelines/kinds.md", 'topic = "api_requests"')
    file = tmp_path / "metrics.toml"
    file.write_text(text.replace('"requests":2', '"requests":3'))
    made = Pipeline.from_file(file)
    (case,) = made.spec.tests
    found = [line.strip() for each in run_case(made, spark, case) for line in each.lines()]
    shown = sample("pipelines.md", "FAILED").splitlines()
    line_number = text.splitlines().index("[[tests]]") + 1
    assert shown[0] == f"FAILED  metrics.toml:{line_number}: {case.name}"
    for line in shown[1:]:
        beginning = line.removesuffix(" ...").strip()
        assert any(each.startswith(beginning) for each in found), found


def test_the_file_of_declarative_pipelines_has_the_keys_of_a_real_one() -> None:
    real = (ROOT / "tests/fixtures/same_job/spark-pipeline.yml").read_text()
    shown = sample("pipelines.md", "```yaml")
    assert set(re.findall(r"^\w+", shown, re.M)) == set(re.findall(r"^\w+", real, re.M))


def streamed(spark: SparkSession, rocketmq: RocketMQ) -> Any:
    reader = spark.readStream.format("nsq").option("nsqd_http_address", rocketmq.broker.http)
    return reader.option("topic", "events").load().select("body")
