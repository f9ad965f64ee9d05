"""Stored values: on the disk before they are acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError, DiskFullError, StorageError
from penstock.rocketmq.namesrv import kv_config
from penstock.rocketmq.namesrv.kv_config import KvConfig
from penstock.storage.files.disk import OsDisk
from penstock.testing.disk import FaultyDisk


def test_they_survive(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "kv.json")
    kv = KvConfig(OsDisk(), path)
    kv.put("a", "k", "v")
    kv.put("a", "l", "w")
    kv.delete("a", "k")
    kv.delete("b", "none")
    again = KvConfig(OsDisk(), path)
    assert again.namespace("a") == {"l": "w"}
    assert again.get("a", "k") is None
    assert again.namespace("b") is None


@given(
    st.dictionaries(
        st.text(max_size=3), st.dictionaries(st.text(max_size=6), st.text(max_size=6), min_size=1)
    )
)
def test_any_text_comes_back_as_it_was_and_no_more(table: dict[str, dict[str, str]]) -> None:
    disk = FaultyDisk("/")
    kv = KvConfig(disk, "/deep/kv.json")
    for namespace, values in table.items():
        for key, value in values.items():
            kv.put(namespace, key, value)
    again = KvConfig(disk, "/deep/kv.json")
    assert again._table == table


class FullDisk(OsDisk):
    """Reads, but has no room."""

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        raise DiskFullError(f"{path}: no space left")


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    kv = KvConfig(FullDisk(), str(tmp_path / "kv.json"))
    with pytest.raises(StorageError, match="no space left"):
        kv.put("a", "k", "v")
    assert kv.get("a", "k") is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"configTable":{"a":1}}'])
def test_a_file_that_is_something_else(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kv.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="is not a table of values"):
        KvConfig(OsDisk(), str(path))


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("kv.json.0123abcd.tmp", "other.json.0123abcd.tmp"):
        (tmp_path / name).write_text("half")
    KvConfig(OsDisk(), str(tmp_path / "kv.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["other.json.0123abcd.tmp"]


def test_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 2)
    kv = KvConfig(OsDisk(), str(tmp_path / "kv.json"))
    kv.put("a", "1", "x")
    kv.put("b", "2", "x")
    kv.put("b", "2", "y")
    with pytest.raises(StorageError, match="at most 2 values"):
        kv.put("a", "3", "x")
