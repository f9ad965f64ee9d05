"""The tap of docs/spark.md as it stands there, each part stopped or killed on the way."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.log_api.log_client import LogClient
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import create, publish, wait_until
from tests.spark.test_channel import wait_long
from tools.pages.documentation import replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GO = os.environ.get("PENSTOCK_GO_NSQ", "")
PROGRAMS = Path(sys.executable).parent
PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
WHERE = ("--data-path", "--tcp-address", "--http-address")
EACH = 2000


def command(program: str) -> list[str]:
    """The words of the page's command line of this program."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(program + " ")]
    return shlex.split(found.replace("\\\n", " "))


class Tap:
    """All that the page starts, beside a cluster of one node."""

    def __init__(
        self, stack: ExitStack, spark: SparkSession, folder: Path, program: str, *flags: str
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._lookupd = stack.enter_context(run_nsqlookupd())
        known = f"--lookupd-tcp-address={self._lookupd.tcp}"
        self.source = stack.enter_context(run_nsqd(known, *flags, program=program or None))
        create(self.source, "events", "spark_tap")
        own = [word for word in command("nsqd")[1:] if word.partition("=")[0] not in WHERE]
        self.node = stack.enter_context(run_nsqd(*own))
        self._copier: subprocess.Popen[bytes] | None = None
        self._query: Any = None
        self.published = 0
        stack.callback(self.end)

    def start_copying(self) -> None:
        own = {"127.0.0.1:4161": self._lookupd.http, "127.0.0.1:5150": self.node.tcp}
        program, *flags = replaced(" ".join(command("nsq_to_nsq")), own).split()
        self._copier = subprocess.Popen([str(PROGRAMS / program), *flags])

    def end_copying(self, *, kill: bool) -> None:
        assert self._copier is not None
        (self._copier.kill if kill else self._copier.terminate)()
        assert (self._copier.wait(60) == 0) is not kill

    def start_query(self) -> None:
        programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        (text,) = [each for each in programs if "127.0.0.1:5151" in each]
        text = replaced(text, {"127.0.0.1:5151": self.node.http, "lake/": f"{self._folder}/"})
        names: dict[str, Any] = {"spark": self._spark}
        exec(text, names)  # what a reader of the page types
        self._query = names["query"]

    def end_query(self) -> None:
        self._query.stop()

    def publish(self) -> None:
        """Some more, the bodies being numbers."""
        numbers = range(self.published, self.published + EACH)
        publish(self.source, "events", [b"%d" % number for number in numbers])
        self.published += EACH

    def wait_until_copied(self) -> int:
        """Wait until everything is in the lake; how many rows there are."""
        everything = {b"%d" % number for number in range(self.published)}
        wait_long(lambda: set(self.rows()) == everything, lambda: f"{len(self.rows())} rows")
        return len(self.rows())

    def rows(self) -> list[bytes]:
        """The bodies in the lake: the files that the sink has committed."""
        if self._query.exception():
            raise self._query.exception()
        files = set()
        for entry in (self._folder / "events" / "_spark_metadata").glob("[0-9]*"):
            files |= {json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]}
        tables = [pq.read_table(file.removeprefix("file://"), columns=["body"]) for file in files]
        return [body for table in tables for body in table.column("body").to_pylist()]

    def end(self) -> None:
        if self._query is not None:
            self._query.stop()
        if self._copier is not None and self._copier.poll() is None:
            self._copier.kill()
            self._copier.wait()


@pytest.fixture(
    params=[
        "",
        pytest.param(
            str(Path(GO) / "nsqd"),
            marks=pytest.mark.skipif(not GO, reason="PENSTOCK_GO_NSQ names no programs of Go"),
        ),
    ],
    ids=["ours", "go"],
)
def make_tap(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[..., Tap]]:
    """Makes a tap beside a cluster whose node has these flags."""
    with ExitStack() as stack:
        yield lambda *flags: Tap(stack, spark, tmp_path, request.param, *flags)


def has_topic(node: Daemon) -> bool:
    with LogClient(node.http) as log:
        return "events" in log.topics()


def log_end(node: Daemon) -> int:
    with LogClient(node.http) as log:
        return log.offsets("events").queues[0].end


def test_clean_stops_lose_and_double_nothing(make_tap: Callable[..., Tap]) -> None:
    tap = make_tap()
    tap.publish()
    tap.start_copying()
    wait_until(lambda: has_topic(tap.node), lambda: "nothing is copied")
    tap.start_query()
    assert tap.wait_until_copied() == EACH
    tap.end_copying(kill=False)
    tap.end_query()
    tap.publish()
    tap.node.restart()
    tap.source.restart()
    tap.start_copying()
    tap.start_query()
    assert tap.wait_until_copied() == 2 * EACH


def test_whatever_is_killed_every_message_arrives_once_for_each_copy(
    make_tap: Callable[..., Tap],
) -> None:
    tap = make_tap("--msg-timeout=3s")
    tap.start_copying()
    tap.publish()
    wait_until(lambda: has_topic(tap.node), lambda: "nothing is copied")
    tap.start_query()
    tap.end_copying(kill=True)
    tap.publish()
    tap.start_copying()
    tap.node.kill()
    tap.publish()
    tap.node.start()
    tap.end_query()
    tap.publish()
    tap.start_query()
    tap.wait_until_copied()
    rows = len(tap.rows())
    assert tap.published <= rows == log_end(tap.node)


def test_what_was_read_takes_no_space_once_its_time_is_over() -> None:
    own = [word for word in command("nsqd")[1:] if word.partition("=")[0] not in WHERE]
    flags = ["--retention-time=1ms" if "retention" in word else word for word in own]
    with run_nsqd(*flags, "--max-bytes-per-file=65536") as node, LogClient(node.http) as log:
        publish(node, "events", [b"x" * 1000] * 50)
        log.commit("events", "events-to-lake", {0: 0})
        for _ in range(19):
            publish(node, "events", [b"x" * 1000] * 50)
        log.commit("events", "events-to-lake", {0: 400})
        wait_until(lambda: log.offsets("events").queues[0].start > 0, lambda: "nothing is freed")
        assert log.offsets("events").queues[0].start <= 400
        log.commit("events", "events-to-lake", {0: 900})
        wait_until(lambda: log.offsets("events").queues[0].start > 400, lambda: "nothing is freed")
