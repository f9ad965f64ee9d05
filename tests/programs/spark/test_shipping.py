"""The cases of `spark/test_shipping.py` that need a port or a process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from penstock.spark.shipping import write_zip
from tools.harness.environments import python_with
from tools.harness.fake_log_server import nsq_batch

IMPORT_ALL = """
import importlib, sys, zipfile
sys.path.insert(0, sys.argv[1])
for name in zipfile.ZipFile(sys.argv[1]).namelist():
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
"""


DECODE = """
from penstock.spark.offsets import Place
from penstock.spark.read.decode import record_batch, wanted_parts
for _ in range(2):
    data = bytes.fromhex(sys.argv[2])
    rows = record_batch(list(wanted_parts(data, 0, 9)), Place("t", "n", 0), ["offset", "body"])
    print(rows.to_pylist())
"""


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
