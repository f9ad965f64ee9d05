"""A bench for group commit, and its disk watched and held."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.storage.durability import Durability
from penstock.testing.disk import FaultyFile
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S

from .benches import Bench


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(getattr(request, "param", Durability.WRITE))


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of each write from now on."""
    paths: list[str] = []
    append = FaultyFile.append

    def noted(file: FaultyFile, data: bytes | memoryview) -> None:
        paths.append(file.path)
        append(file, data)

    monkeypatch.setattr(FaultyFile, "append", noted)
    return paths


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event; syncs of logs wait until it is set."""
    opened = threading.Event()
    sync = FaultyFile.sync

    def waiting(file: FaultyFile) -> None:
        assert not file.path.endswith(".log") or opened.wait(TIMEOUT_S)
        sync(file)

    monkeypatch.setattr(FaultyFile, "sync", waiting)
    yield opened
    opened.set()
