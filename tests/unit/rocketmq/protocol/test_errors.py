"""Both errors are Penstock's."""

from __future__ import annotations

from penstock.core.errors import PenstockError
from penstock.rocketmq.protocol.errors import BodyError, FrameError


def test_they_are_told_apart() -> None:
    assert issubclass(FrameError, PenstockError)
    assert issubclass(BodyError, PenstockError)
    assert not issubclass(BodyError, FrameError)
