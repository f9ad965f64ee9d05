"""The zip for executors: the same each time, small, and enough beside three packages."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.shipping import modules, write_zip
from tests.environments import python_with
from tests.spark.fake_log_server import nsq_batch

BYTES_MAX = 250_000
IMPORT_ALL = """
import importlib, sys, zipfile
sys.path.insert(0, sys.argv[1])
for name in zipfile.ZipFile(sys.argv[1]).namelist():
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
"""
DECODE = """
from penstock.spark.decode import Origin, record_batch, wanted_parts
for _ in range(2):
    data = bytes.fromhex(sys.argv[2])
    rows = record_batch(list(wanted_parts(data, 0, 9)), Origin("t", "n", 0), ["offset", "body"])
    print(rows.to_pylist())
"""


def test_the_zip_is_reproducible_small_and_without_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_zip(tmp_path)
    assert first.name.startswith("penstock-")
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(86_400 * 15_000))
    second = write_zip(tmp_path / "again.zip")
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) < BYTES_MAX
    names = ZipFile(first).namelist()
    found_by_name = {"pyspark_nsq/__init__.py", "pyspark_rocketmq/__init__.py"}
    assert found_by_name | {"penstock/spark/stream.py"} <= set(names)
    assert not [name for name in names if "/broker/" in name or "/nsqd/" in name]
    assert len(names) == len(modules())


def test_its_modules_need_only_pyspark_pyarrow_and_numpy(tmp_path: Path) -> None:
    python = python_with(tmp_path / "bare", "numpy", "pyarrow", "pyspark", "py4j")
    batch = nsq_batch(0, [b"one", b"three"])
    ended = subprocess.run(
        [python, "-c", IMPORT_ALL + DECODE, write_zip(tmp_path), batch.hex()],
        env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    rows = "[{'offset': 0, 'body': b'one'}, {'offset': 1, 'body': b'three'}]\n"
    assert ended.stdout == 2 * rows
    assert ended.stderr == (
        "xxhash is not installed here, so the checksums of batches are not verified again: "
        "nsqd verified them when it read them from disk\n"
    )


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"nowhere/p\.zip cannot be written: No such file"):
        write_zip(tmp_path / "nowhere" / "p.zip")
