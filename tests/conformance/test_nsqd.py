"""nsqd answers as the real one was recorded to answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from .replay_nsqd import DIFFERENCES, SHARE_MIN, replay
from .samples import load

FILES = ["tcp.jsonl", "http.jsonl"]


@pytest.mark.parametrize("file", FILES)
async def test_recorded_exchanges_hold(
    file: str, samples_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await replay(samples_dir / file)
    with capsys.disabled():
        print(f"\n{report}")
    assert report.share >= SHARE_MIN
    assert report.unlisted() == []


def test_listed_differences_are_samples(samples_dir: Path) -> None:
    names = {case["name"] for file in FILES for case in load(samples_dir / file)}
    assert set(DIFFERENCES) <= names
