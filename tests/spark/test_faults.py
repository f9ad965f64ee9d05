"""Faults under a pipeline as its user meets them: one sentence, and no row lost in silence.

docs/pipelines.md has the table. Others of its lines are tested in test_archive.py, test_sink.py,
test_source.py, test_parse.py and test_real_nodes.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.pipeline.run_command import run_pipeline
from penstock.core.errors import PenstockError
from penstock.nsq.protocol import encode
from penstock.spark.pipelines import Pipeline
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 500
AVAILABLE_NOW = {"availableNow": True}
FILE = """
[source]
topic = "t"
nsqd_http_address = "{node}"
startingOffsets = "earliest"
timeout = {timeout}
{source}
[parse]
{parse}
[sql]
query = "{query}"
[sink]
format = "{sink}"
outputMode = "{mode}"
path = "{folder}/out"
[run]
every = "100ms"
checkpoint = "{folder}/checkpoint"
settings = {{"spark.ui.enabled" = "false"}}
"""


class Site:
    """A node, and pipelines in one folder that read topic ``t`` there."""

    def __init__(self, spark: SparkSession, nsqd: Daemon, folder: Path) -> None:
        self.spark = spark
        self.nsqd = nsqd
        self.folder = folder

    def post(self, path: str, body: bytes = b"") -> None:
        url = f"http://{self.nsqd.http}{path}"
        request = urllib.request.Request(url, body, method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def publish(self, *bodies: bytes) -> None:
        self.post("/mpub?topic=t&binary=true", encode.multi_body(bodies))

    def file(
        self, source: str = "", parse: str = "", query: str = "select offset from input",
        sink: str = "parquet", mode: str = "append", timeout: int = 60,
    ) -> Path:  # fmt: skip
        file = self.folder / "p.toml"
        file.write_text(
            FILE.format(
                node=self.nsqd.http, source=source, parse=parse, query=query, sink=sink, mode=mode,
                folder=self.folder, timeout=timeout,
            )
        )  # fmt: skip
        return file

    def refused(self, file: Path, trigger: dict[str, bool] | None = None) -> str:
        """The sentence with which a run ends."""
        with pytest.raises(PenstockError) as failed:
            run_pipeline(Pipeline.from_file(file), trigger)
        said = str(failed.value)
        assert "\n" not in said
        assert "py4j" not in said
        return said

    def offsets(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.folder / "out")).select("offset").collect()
        return sorted(row.offset for row in rows)

    def after_a_batch(self, act: Callable[[], object]) -> None:
        """Have this done in a thread once a batch is committed."""

        def wait() -> None:
            for _ in range(WAIT_S * 20):
                if list((self.folder / "checkpoint/commits").glob("[0-9]*")):
                    act()
                    return
                time.sleep(0.05)

        threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def site(lent: SparkSession, tmp_path: Path) -> Iterator[Site]:
    """The command's own code, but for the start and the end of Spark."""
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        yield Site(lent, nsqd, tmp_path)


def test_a_row_that_the_sql_cannot_take_stays_to_be_read(site: Site) -> None:
    site.publish(b"1", b"x")
    number = "select offset, {cast}(cast(body as string) as int) n from input"
    said = site.refused(site.file(query=number.format(cast="cast")), AVAILABLE_NOW)
    assert said.startswith('The value \'x\' of the type "STRING" cannot be cast to "INT"')
    assert "Use `try_cast`" in said
    assert "SQLSTATE" not in said
    run_pipeline(Pipeline.from_file(site.file(query=number.format(cast="try_cast"))), AVAILABLE_NOW)
    assert site.offsets() == [0, 1]


def test_a_state_of_other_columns_is_not_gone_on_with(site: Site) -> None:
    site.publish(b'{"n": 1}')
    shape: dict[str, Any] = {"query": "select n, count(*) c from input group by n", "sink": "noop"}
    file = site.file(parse='json = "n int"', mode="update", **shape)
    run_pipeline(Pipeline.from_file(file), AVAILABLE_NOW)
    site.publish(b'{"n": 2}')
    file = site.file(parse='json = "n string"', mode="update", **shape)
    said = site.refused(file, AVAILABLE_NOW)
    assert said.startswith("the groups, windows or unique columns of the query are others than")


def test_a_column_that_a_folder_of_parquet_does_not_have_yet(site: Site) -> None:
    site.publish(b'{"n": 1}')
    select = "select offset, {columns} from input"
    old = site.file(parse='json = "n int"', query=select.format(columns="n"))
    run_pipeline(Pipeline.from_file(old), AVAILABLE_NOW)
    site.publish(b'{"n": 2, "s": "x"}')
    new = site.file(parse='json = "n int, s string"', query=select.format(columns="n, s"))
    run_pipeline(Pipeline.from_file(new), AVAILABLE_NOW)
    out = str(site.folder / "out")
    rows = site.spark.read.option("mergeSchema", "true").parquet(out).orderBy("offset").collect()
    assert [(row.n, row.s) for row in rows] == [(1, None), (2, "x")]
    # Without it Spark takes the columns of one file; no row is missed.
    assert site.offsets() == [0, 1]


def test_a_topic_that_is_deleted_under_the_pipeline(site: Site) -> None:
    site.publish(b"x")
    site.after_a_batch(lambda: site.post("/topic/delete?topic=t"))
    said = site.refused(site.file())
    assert said.startswith(
        f"topic t was deleted on node {site.nsqd.http}: it was read up to offset 1 there, and what "
        "came after that is lost. Once it is there again, set failOnDataLoss=false"
    )
    assert site.offsets() == [0]


def test_a_node_that_dies_with_most_of_its_rows_unread(site: Site) -> None:
    for _ in range(10):
        site.publish(*[b"x" * 100] * 300)
    site.after_a_batch(site.nsqd.kill)
    said = site.refused(site.file(source="maxRecordsPerTrigger = 20", timeout=15))
    # The planner or a task may be first to meet it.
    planner = f"node {site.nsqd.http} cannot be reached for topic t: connection refused"
    task = f"topic t (queue 0) on node {site.nsqd.http} cannot be read from offset"
    assert said.startswith((planner, task))
    assert "start it and run the same command to go on" in said
    site.nsqd.start()
    run_pipeline(Pipeline.from_file(site.file()), AVAILABLE_NOW)
    assert site.offsets() == list(range(3000))


def test_a_node_whose_certificate_is_of_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files, other = Certificates(tmp_path), Certificates(tmp_path / "other")
    flags = [*files.flags(), "--tls-required=true", "--broadcast-address=127.0.0.1"]
    with run_nsqd(*flags) as nsqd:
        for option, said in (
            ("", "takes no plain HTTP (--tls-required): set tls_v1=true"),
            (
                f'tls_root_ca_file = "{other.ca}"',
                "certificate signed by unknown authority; options",
            ),
            (
                f'tls_root_ca_file = "{files.ca}"\ntls_server_name = "else.where"',
                "is not valid for 'else.where'; options tls_root_ca_file and tls_server_name say",
            ),
        ):
            file = tmp_path / "p.toml"
            file.write_text(
                f'[source]\ntopic = "t"\nnsqd_http_address = "{nsqd.http}"\n{option}\n'
                f'[sink]\nformat = "noop"\n[run]\ncheckpoint = "{tmp_path}/checkpoint"\n'
            )
            with pytest.raises(PenstockError) as refused:  # before Spark starts
                run_pipeline(Pipeline.from_file(file))
            assert said in str(refused.value)
            assert nsqd.http in str(refused.value)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not on PATH")
def test_a_checkpoint_on_a_disk_that_is_full(site: Site) -> None:
    site.publish(*[b"x"] * 300)
    full = site.folder / "checkpoint"
    full.mkdir()
    file = site.file(source="maxRecordsPerTrigger = 100")
    # A small file system that only this run sees; what it holds in the end is put beside it.
    steps = 'mount -t tmpfs -o size=56k tmpfs "$0" && { "$@"; code=$?; cp -a "$0" "$0.kept"; }'
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", f"{steps}; exit $code", str(full),
         sys.executable, "-m", "penstock.cli.penstock", "pipeline", "run", str(file),
         "--available-now"],
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (said,) = ended.stderr.splitlines()
    assert said.startswith("penstock: the disk of the checkpoint, of the sink or of Spark's tempor")
    full.rmdir()
    Path(f"{full}.kept").rename(full)
    run_pipeline(Pipeline.from_file(file), AVAILABLE_NOW)
    assert site.offsets() == list(range(300))
