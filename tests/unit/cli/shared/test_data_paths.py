"""A data path is told from any other folder, and its files from those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.shared.data_paths import is_data_path, own_files


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("nsqd.dat", True),
        ("ids.json", True),
        ("rocketmq-serials.json", True),
        ("replication.json", True),
        ("clicks.diskqueue.000000.dat", True),
        ("topics/orders.v1@0/queue.json", True),
        ("topics/gone@12.deleted/queue.json", True),
        ("config/topics.json", True),
        ("topics/readme.md", False),
        ("topics/a@b/x", False),
        ("config/settings.json", False),
        ("topics", False),
        ("config", False),
        ("notes.txt", False),
    ],
)
def test_a_data_path(tmp_path: Path, name: str, is_one: bool) -> None:
    assert not is_data_path(str(tmp_path))
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert is_data_path(str(tmp_path)) == is_one


def test_no_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        is_data_path(str(tmp_path / "no"))


def test_files_of_others_are_left_out_and_those_of_go_share_a_pattern() -> None:
    names = ["notes.txt", "topics", "nsqd.dat", "go-nsqd-imported-2", "aside", "nsqd.dat.bak",
             "t.diskqueue.000000.dat", "t.diskqueue.meta.dat"]  # fmt: skip
    go = "*.diskqueue.*.dat"
    assert own_files(names) == {
        "topics": "topics", "nsqd.dat": "nsqd.dat", "go-nsqd-imported-2": "go-nsqd-imported-2",
        "aside": "aside", "t.diskqueue.000000.dat": go, "t.diskqueue.meta.dat": go,
    }  # fmt: skip
