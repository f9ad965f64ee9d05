"""The files of decisions: one a writer, whole or told of as damaged."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.storage.files.decision_files import DecisionFiles
from penstock.testing.disk import FaultyDisk

FOLDER = "/data/staged"


def test_a_writer_has_one_file_that_survives_a_power_cut() -> None:
    disk = FaultyDisk("/data")
    files = DecisionFiles(disk, FOLDER, durably=True)
    assert list(files.load()) == []
    files.write("w", b"one")
    files.write("v/../v", b"other")
    disk.replace_file(f"{FOLDER}/0.part", b"not a decision")
    files.write("w", b"two")
    disk.crash(SystemChance())
    assert sorted(files.load()) == [b"other", b"two"]
    files.remove("w")
    disk.crash(SystemChance())
    assert list(files.load()) == [b"other"]


def test_a_damaged_file_is_reported_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk("/data")
    files = DecisionFiles(disk, FOLDER, durably=True)
    files.write("w", b"content")
    (path,) = disk.paths(".decision")
    data = disk.read_file(path)
    assert data is not None
    disk.replace_file(path, data[:-1] + b"X")
    assert list(files.load()) == []
    assert caplog.messages == [f"{path} is damaged: what a writer has decided is not known"]
