"""How full a file system is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.storage.files.disk_space import DiskSpace


def test_it_is_that_of_the_path(tmp_path: Path) -> None:
    space = DiskSpace.of(str(tmp_path))
    assert space is not None
    assert space.total == shutil.disk_usage(tmp_path).total
    assert 0 <= space.used_share <= 1


def test_a_path_that_is_not_there() -> None:
    assert DiskSpace.of(os.path.join(os.sep, "no", "such", "path")) is None


@pytest.mark.parametrize(
    ("used", "free", "share"),
    [(0, 100, 0.0), (1, 999, 0.01), (300, 700, 0.3), (301, 700, 0.31), (5, 0, 1.0), (0, 0, 0.0)],
)
def test_the_share_is_rounded_up(used: int, free: int, share: float) -> None:
    assert DiskSpace(used + free, used, free).used_share == share
