"""The zip for executors: the same each time, small, and enough beside three packages."""

from __future__ import annotations

import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.shipping import modules, write_zip

BYTES_MAX = 300_000


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
    assert found_by_name | {"penstock/spark/read/stream.py"} <= set(names)
    assert not [name for name in names if "/broker/" in name or "/nsqd/" in name]
    assert len(names) == len(modules())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"nowhere/p\.zip cannot be written: No such file"):
        write_zip(tmp_path / "nowhere" / "p.zip")
