"""nsqd answers as the real one was recorded to answer."""

from __future__ import annotations

import pytest

from . import replay_nsqd
from .replay_nsqd import SAMPLES, SHARE_MIN, replay


@pytest.mark.parametrize("file", ["tcp.jsonl", "http.jsonl"])
async def test_recorded_exchanges_hold(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = await replay(SAMPLES / file)
    with capsys.disabled():
        print(f"\n{report}")
    assert report.share >= SHARE_MIN
    assert report.unlisted() == []


def test_listed_differences_are_samples() -> None:
    names = {
        case["name"]
        for file in ("tcp.jsonl", "http.jsonl")
        for case in replay_nsqd.load(SAMPLES / file)
    }
    assert set(replay_nsqd.DIFFERENCES) <= names
