"""Small chunks and files, for tests of the index of queues."""

from __future__ import annotations

import pytest

from penstock.storage.queues import queue_index


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and files so small that a short story meets all their borders."""
    monkeypatch.setattr(queue_index, "CHUNK_MESSAGES", 5)
    monkeypatch.setattr(queue_index, "LAG_MAX", 16)
    monkeypatch.setattr(queue_index, "FILE_BYTES", 300)
