"""The wheel of the work tree, built once for all of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import built


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    made = tmp_path_factory.mktemp("dist")
    built.build(made)
    return made


@pytest.fixture(scope="package")
def wheel(folder: Path) -> Path:
    return built.wheel_in(folder)
