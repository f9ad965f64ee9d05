"""nsqd answers as the real one was recorded to answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.harness.samples import load
from tools.replay.replay_nsqd import FILES, replay_file
from tools.replay.report import Report

OURS = "PENSTOCK_NSQD" not in os.environ
DEEPER = {"identify-json-deep"} if sys.version_info >= (3, 14) else set()
"""Go reads JSON 10,000 levels deep, Python 3.14 as deep as the stack allows: not worth a look at
each bracket.
"""


@pytest.fixture(scope="module")
def reports(samples_dir: Path) -> Iterator[dict[str, Future[Report]]]:
    """What comes of each file. They are played at the same time, as one waits and another works."""
    with ThreadPoolExecutor(len(FILES)) as pool:
        yield {file: pool.submit(replay_file, samples_dir / file) for file in FILES}


@pytest.mark.parametrize("file", FILES)
def test_recorded_exchanges_hold(
    file: str,
    reports: dict[str, Future[Report]],
    samples_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = reports[file].result()
    with capsys.disabled():
        print(f"\n{report.summary()}", end="")
    assert set(report.failed) <= DEEPER, str(report)
    assert len(report.held) + len(report.misses) == len(load(samples_dir / file))
    if OURS:
        assert report.outdated == [], "these hold: take them out of DIFFERENCES"
