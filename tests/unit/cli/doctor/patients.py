"""Real data paths for the doctor, healthy at first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from penstock.broker.progress import GroupRecord, TopicRecord, encode_record
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.ids import id_base
from penstock.storage.files.disk import OsDisk
from penstock.storage.journal import Journal
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from tools.harness.small_logs import publish

TOPIC = "orders"
SEGMENT_BYTES = 2000
MESSAGES = 60


@contextlib.contextmanager
def opened(path: Path, topic: str = TOPIC) -> Iterator[tuple[Log, Journal]]:
    """A topic of a data path, closed as a stop does."""
    now = SYSTEM_CLOCK.wall_ns()
    store = Store(OsDisk(), str(path), LogOptions(max_bytes_per_file=SEGMENT_BYTES))
    log, journal, _ = store.open_queue(topic, 0, id_base(1, now, 0))
    try:
        yield log, journal
        journal.append([encode_record(TopicRecord(0)), encode_record(GroupRecord("spark", 3))],
                       log.extent)  # fmt: skip
        log.close()
        journal.append([encode_record(GroupRecord("spark", 5))], log.extent)
        journal.sync()
    finally:
        journal.close()
        store.close()


def healthy(path: Path) -> Path:
    """A data path with one topic of several segments, as a clean stop leaves it; its folder."""
    path.mkdir(exist_ok=True)
    with opened(path) as (log, _):
        for number in range(MESSAGES):
            publish(log, b"%04d" % number * 20, timestamp_ns=SYSTEM_CLOCK.wall_ns())
    (path / "nsqd.dat").write_text('{"topics":[{"name":"orders"}],"version":"1.3.0"}')
    return path / "topics" / f"{TOPIC}@0"


def segments(folder: Path) -> list[Path]:
    """The segments of a topic, the oldest first."""
    return sorted(folder.glob("*.log"))


def everything(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time of change and content of all files below a path."""
    return {
        str(each.relative_to(path)): (
            each.stat().st_mode,
            each.stat().st_mtime_ns,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in sorted(path.rglob("*"))
    }
