"""A repair does what a start does, and accepts damage only when told."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.doctor.data_path import examine_data_path
from penstock.cli.doctor.run import repair_data_path
from penstock.core.clock import SYSTEM_CLOCK
from tests.unit.cli.doctor.patients import healthy, segments


@pytest.mark.parametrize(("accept", "left"), [(False, ["damage-pending"]), (True, [])])
def test_a_torn_tail_goes_and_damage_stays_until_it_is_accepted(
    tmp_path: Path, accept: bool, left: list[str]
) -> None:
    folder = healthy(tmp_path)
    segments(folder)[1].unlink()
    newest = segments(folder)[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(b"torn")
    repair_data_path(str(tmp_path), accept_damage=accept)
    assert newest.stat().st_size == size
    assert len(list((folder / "quarantine").iterdir())) == 1
    report = examine_data_path(str(tmp_path), SYSTEM_CLOCK.wall_ns())
    assert [each.code for each in report.findings] == left


def test_a_folder_that_is_not_a_data_path_is_left_alone(tmp_path: Path) -> None:
    """A start removes ``*.tmp`` of its own form, here of another program."""
    other = tmp_path / "notes.txt.0123abcd.tmp"
    other.touch()
    repair_data_path(str(tmp_path), accept_damage=True)
    assert list(tmp_path.iterdir()) == [other]
    repair_data_path(str(tmp_path / "no"), accept_damage=True)
