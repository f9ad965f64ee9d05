"""The progress of an imported topic's channels: the records of its cursor journal.

A channel is a cursor over one log for all. So what only some channels' queues held is skipped by
the others, and what was delivered before is requeued, with its attempts.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.progress import ChannelRecord, Progress, Range, Record, TopicRecord, Unfinished
from penstock.core.ranges import RangeSet


class Queued:
    """The imported offsets that a channel had in its queue."""

    def __init__(self) -> None:
        self.fresh = RangeSet()
        self.unfinished: list[Unfinished] = []

    def add(self, first: int, next_: int, attempts: int) -> None:
        """``[first, next_)`` is the channel's, delivered ``attempts`` times so far."""
        if not attempts:
            self.fresh.add(first, next_)
            return
        last = self.unfinished[-1] if self.unfinished else None
        if last is not None and last[1] == first and last[2] == attempts:
            self.unfinished[-1] = (last[0], next_, attempts)
        else:
            self.unfinished.append((first, next_, attempts))

    def skips(self, first: int, next_: int) -> list[Range]:
        """The parts of ``[first, next_)`` that the cursor must not deliver by itself."""
        gaps = []
        for start, end in self.fresh:
            if start > first:
                gaps.append((first, start))
            first = end
        if first < next_:
            gaps.append((first, next_))
        return gaps


def records(
    progress: Progress,
    channels: dict[str, Queued],
    first: int,
    next_: int,
    *,
    start: int,
    paused: bool,
) -> list[Record]:
    """The records to add to a journal that stood at ``progress``.

    The messages of the channel queues are ``[first, next_)``, those of the topic queue follow. The
    log starts at ``start``. ``channels`` has every channel that there is to be, queued or not.
    """
    head = begin = start if progress.head is None else progress.head
    if progress.channels and not progress.paused:
        begin = first  # all before it was given to the channels that there were
    if next_ > first or begin == first:
        head = next_  # past what is one channel's alone, and so past what waited before it, too
    found: list[Record] = [TopicRecord(head, paused)]
    for name in _union(progress.channels, channels):
        queued = channels.get(name) or Queued()
        skips = queued.skips(first, next_)
        old = progress.channels.get(name)
        if old is None:
            found.append(_record(name, begin, head, queued.unfinished, skips))
        else:
            found.append(
                _record(
                    name,
                    old.cursor,
                    head,
                    [*old.unfinished, *queued.unfinished],
                    [*old.skips, *skips],
                )
            )
    return found


def _union(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some))


def _record(
    name: str, cursor: int, head: int, unfinished: list[Unfinished], skips: list[Range]
) -> ChannelRecord:
    return ChannelRecord(
        name, cursor, head, unfinished, skips, reset=False, deferred=[], undeferred=[]
    )
