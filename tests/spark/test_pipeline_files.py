"""Files that we give people, and the commands they run them with, over real nodes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.pipeline import status
from penstock.nsq.protocol import encode
from penstock.spark.pipelines import Pipeline, ends
from penstock.spark.pipelines.cases import run_case
from penstock.spark.pipelines.spec import Sink
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.terminals import screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "examples").glob("*.toml")),
    *sorted((ROOT / "src/penstock/spark/pipelines/templates").glob("*.toml")),
]
WAIT_S = 400


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1") as daemon:
        yield daemon


def publish(nsqd: Daemon, topic: str, bodies: list[bytes]) -> None:
    request = urllib.request.Request(
        f"http://{nsqd.http}/mpub?topic={topic}&binary=true",
        data=encode.multi_body(bodies),
        method="POST",
    )
    urllib.request.urlopen(request, timeout=30).close()


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.penstock", "pipeline", *map(str, arguments)],
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip


def bodies(spark: SparkSession, nsqd: Daemon, topic: str) -> list[dict[str, Any]]:
    frame = spark.read.format("nsq").options(topic=topic, nsqd_http_address=nsqd.http).load()
    return [json.loads(bytes(row.body)) for row in frame.orderBy("offset").collect()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_that_we_give_pass_their_tests_and_the_analyser(
    spark: SparkSession, file: Path, tmp_path: Path
) -> None:
    pipeline = Pipeline.from_file(file)
    for case in pipeline.spec.tests:
        assert [each.lines() for each in run_case(pipeline, spark, case)] == [], case.name
    if pipeline.spec.source.format == "nsq":  # files have to be there to be looked at
        pipeline.check(spark)


def request(minute: int, status: int) -> bytes:
    ts = f"2026-01-01T10:{minute:02d}:30Z"
    return json.dumps({"ts": ts, "endpoint": "/a", "status": status, "ms": 1.5}).encode()


def test_metrics_run_live_end_after_the_batch_and_go_on(
    spark: SparkSession, penstock: Callable[..., object], nsqd: Daemon, tmp_path: Path
) -> None:
    text = (ROOT / "examples/api-metrics.toml").read_text()
    file = tmp_path / "api-metrics.toml"
    checkpoint = tmp_path / "checkpoint"
    text = text.replace("127.0.0.1:4151", nsqd.http)
    text = text.replace('every = "10s"', f'every = "1s"\ncheckpoint = "{checkpoint}"')
    file.write_text(text)
    publish(nsqd, "api_requests", [request(0, 200), request(0, 503), b"broken", request(9, 200)])
    with screen("pipeline", "run", str(file), wait_s=WAIT_S) as shown:
        seen = shown.until(lambda text: ("written" in text and "1 / 1" in text) or "4 / 4" in text)
        assert "api-metrics · nsq api_requests → nsq api_metrics" in seen
        seen = shown.until(lambda text: "did not parse 1" in text)
        assert "batch time" in seen
        shown.until(lambda _: (status.read(str(checkpoint)) or {})["rows_read"] == 4)
        assert (status.read(str(checkpoint)) or {})["state"] == "running"
        refused = command("run", file)
        assert "is in use: process" in refused.stderr
        shown.process.send_signal(signal.SIGTERM)
        assert shown.ended() == 0
    assert b"Traceback" not in shown.raw
    assert (status.read(str(checkpoint)) or {})["state"] == "stopped"

    publish(nsqd, "api_requests", [request(20, 200)])
    penstock("pipeline", "run", file, "--available-now")
    assert bodies(spark, nsqd, "api_metrics") == [
        {"minute": "2026-01-01T10:00:00.000Z", "endpoint": "/a", "requests": 2, "errors": 1,
         "p99": 1.5},
        {"minute": "2026-01-01T10:09:00.000Z", "endpoint": "/a", "requests": 1, "errors": 0,
         "p99": 1.5},
    ]  # fmt: skip
    (bad,) = bodies(spark, nsqd, "api_requests.bad")
    assert (bad["reason"], bad["body"], bad["offset"]) == ("the body is not JSON", "broken", 2)


REFUSED_BY_A_RUN = [
    # what follows [source] topic, the sink and its SQL, and a part of what is said
    ("", 'format = "http"\nurl = "http://h/"', "select topic from input", "posts the column body"),
    ("", 'format = "noop"', "select 1 as body", "without streaming sources"),
    ("", 'format = "parket"', "select body from input", "parket"),
    ("", 'format = "jdbc"\nurl = "jdbc:x"', "select body from input", "no stream is written to"),
    ("", 'format = "rate"', "select body from input", "no stream is written to format rate"),
    ("", 'format = "text"\npath = "x"', "select topic, id from input", "single column"),
    ("", 'format = "text"\npath = "x"', "select offset from input", "bigint|BIGINT"),
    ("", 'format = "csv"\npath = "x"', "select array(id) as a from input", "array|ARRAY"),
    ("", 'format = "json"\npath = "x"\npartitionBy = "day"', "select body from input", "day"),
    ("", 'format = "orc"\npath = "x"\ncompression = "zap"', "select body from input", "zap"),
    ("", 'format = "parquet"\npath = "x"', "select id, id from input", "id"),
    ('schema = "bdy binary"', 'format = "noop"', "select bdy from input", "no column bdy"),
]


@pytest.mark.parametrize(("source", "sink", "sql", "said"), REFUSED_BY_A_RUN)
def test_what_a_run_refuses_is_refused_before(
    spark: SparkSession, tmp_path: Path, source: str, sink: str, sql: str, said: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(
        f'[source]\ntopic = "t"\nnsqd_http_address = "127.0.0.1:1"\n{source}\n'
        f'[sql]\nquery = "{sql}"\n[sink]\n{sink}\n'
    )
    with pytest.raises(Exception, match=said):
        Pipeline.from_file(file).check(spark)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("format", ["noop", "console", "memory", "xml"])
def test_sinks_of_spark_that_streams_are_written_to(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    file = tmp_path / "p.toml"
    source = '[source]\ntopic = "t"\nnsqd_http_address = "127.0.0.1:1"\n'
    file.write_text(f'{source}[sink]\nformat = "{format}"\noutputMode = "append"\n')
    assert Pipeline.from_file(file).check(spark).columns
    ends._require_stream_writer(spark, Sink("orc", {"path": "x"}))  # as other files' formats are


def test_tests_and_validation_from_the_command_line(
    penstock: Callable[..., object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.toml"
    shutil.copy(ROOT / "examples/nsq_to_nsq.toml", file)
    text = file.read_text()
    file.write_text(text.replace("output = [{body", 'output = [{body = "other"}, {body'))
    with pytest.raises(SystemExit, match=r"^1$"):
        penstock("pipeline", "test", file, ROOT / "examples/nsq_to_file.toml")
    assert capsys.readouterr().out.splitlines() == [
        f"FAILED  {file}:17: errors only",
        "    output (- wanted, + came):",
        '      - {body = "other"}',
        f"passed  {ROOT}/examples/nsq_to_file.toml:24: a line in the folder of its hour",
        "1 passed, 1 failed",
    ]
    file.write_text(text.replace("select body", "select bdy"))
    with pytest.raises(SystemExit, match=r"^1$"):
        penstock("pipeline", "validate", file, ROOT / "examples/nsq_to_file.toml")
    out, err = capsys.readouterr()
    assert "`bdy` cannot be resolved" in err
    assert err.count("\n") == 1
    assert out.startswith(f"{ROOT}/examples/nsq_to_file.toml: nsq_to_file reads nsq events")
