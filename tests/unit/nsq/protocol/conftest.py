"""The parser and the bodies in Python; tests/unit/lane compares compiled code with them."""

from __future__ import annotations

import pytest

from penstock import lane


@pytest.fixture(autouse=True)
def python_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave compiled code out."""
    monkeypatch.setattr(lane, "frames_of_mpub", lambda *_: None)
