"""The command under test."""

from __future__ import annotations

import pytest

from tests.unit.cli.nodes_at_work import Commands


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)
