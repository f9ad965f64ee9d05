"""Spark's Declarative Pipelines with our sources and sinks: its command runs the files we show."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock.arrow
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import publish
from tests.page_blocks import sample
from tests.spark.test_cluster import environment
from tools.pages.documentation import DOCS, ROOT

RUN_S_MAX = 400
PAGE = DOCS / "pipelines.md"


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1") as daemon:
        yield daemon


def order(country: str, amount: int, total: float) -> bytes:
    return json.dumps({"id": 1, "country": country, "amount": amount, "total": total}).encode()


def folder_of(nsqd: Daemon, folder: Path) -> Path:
    """The page's files, and those of the comparison with other tools; the file that names them."""
    modules = folder / "transformations"
    modules.mkdir()
    shutil.copy(ROOT / "tests/fixtures/same_job/declarative.py", modules)
    (modules / "orders.py").write_text(sample("pipelines.md", "dp.table"))
    for module in modules.iterdir():
        module.write_text(module.read_text().replace("127.0.0.1:4151", nsqd.http))
    file = folder / "spark-pipeline.yml"
    file.write_text(sample("pipelines.md", "```yaml").replace("/srv/orders", str(folder)))
    return file


def run(file: Path) -> None:
    """Run the page's command, as in an environment that was activated: it looks for python3."""
    (command,) = re.findall(r"`(spark-pipelines .*? run .*?)`", PAGE.read_text())
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [programs / command.split()[0], *command.split()[1:]],
        env=environment() | {"PATH": path}, cwd=file.parent, capture_output=True, text=True,
        timeout=RUN_S_MAX,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def table(folder: Path, name: str) -> Any:
    """The rows of one of the pipeline's tables, a column each."""
    return pq.read_table(folder / "spark-warehouse" / name).to_pydict()


def bodies(nsqd: Daemon, topic: str) -> list[bytes]:
    rows = penstock.arrow.read(topic, columns=["body"], nsqd_http_address=nsqd.http)
    found: list[bytes] = rows.read_all()["body"].to_pylist()
    return sorted(found)


def test_tables_and_sinks_over_two_runs(nsqd: Daemon, tmp_path: Path) -> None:
    file = folder_of(nsqd, tmp_path)
    large, small, later = order("DE", 2, 100), order("DE", 3, 99), order("DE", 7, 200)
    publish(nsqd, "orders", [large, small, b"broken"])
    run(file)
    assert sorted(table(tmp_path, "orders")["country"], key=str) == ["DE", "DE", None]
    assert bodies(nsqd, "orders_de") == [large]
    assert bodies(nsqd, "orders.bad") == [b"broken"]
    publish(nsqd, "orders", [later])
    run(file)
    found = table(tmp_path, "totals")
    assert dict(zip(found["country"], found["amount"], strict=True)) == {"DE": 12.0, None: None}
    assert bodies(nsqd, "orders_de") == sorted([large, later])
    assert bodies(nsqd, "orders.bad") == [b"broken"]
