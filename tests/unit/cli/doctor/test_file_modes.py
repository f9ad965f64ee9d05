"""Modes and owners that stop nsqd, or let everybody in, are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.doctor.file_modes import examine_permissions
from penstock.cli.doctor.report import Level


@pytest.mark.parametrize(
    ("name", "mode", "level", "said"),
    [
        ("file", 0o400, Level.ERROR, "its owner may not read and write"),
        ("file", 0o200, Level.ERROR, "its owner may not read and write"),
        ("folder", 0o600, Level.ERROR, "its owner may not read and write"),
        ("file", 0o666, Level.WARNING, "may be changed by everybody"),
        ("folder", 0o777, Level.WARNING, "may be changed by everybody"),
        ("file", 0o640, None, ""),
    ],
)
def test_a_mode(tmp_path: Path, name: str, mode: int, level: Level | None, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch(0o600)
    (tmp_path / name).chmod(mode)
    found = list(examine_permissions(str(tmp_path)))
    (tmp_path / name).chmod(0o700)
    assert [(each.level, each.what) for each in found] == ([(level, said)] if level else [])
    assert all(each.where == str(tmp_path / name) for each in found)


def test_several_files_of_another_user_are_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch(0o600)
    lstat = os.lstat

    def of_another(path: str) -> os.stat_result:
        found = lstat(path)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.setattr("penstock.cli.doctor.file_modes.os.lstat", of_another)
    (found,) = examine_permissions(str(tmp_path))
    assert found.what == "belongs to another user than the data path does"
    assert found.where.endswith(" and 2 others")
    assert f"chown -R USER {tmp_path}" in found.remedy
