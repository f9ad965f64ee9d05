"""Child of the demo: publishes the flights at a steady rate, reports how many are acknowledged."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice

from penstock.cli.live import flights
from penstock.cli.live.children import report
from penstock.cli.live.small_client import Wire
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.nsq.protocol import encode

_BATCH = 500
_REPORT_EVERY_NS = 50_000_000


def main() -> None:
    """``replay ADDRESS RATE EVENTS``; starts when a line comes on standard input."""
    address, rate, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        replay(address, rate, events)
    except PenstockError as error:
        report(error=str(error))
        sys.exit(1)


def replay(address: str, rate: int, events: int) -> None:
    """Publish the first ``events`` flights. Raises WireError when nsqd refuses or goes away."""
    batches = _batches(flights.events(), events)
    # Before it says that it is ready, as reading the flights takes a second.
    first = next(batches)
    report(state="ready")
    sys.stdin.readline()
    wire = Wire(address)
    answers = wire.frames()
    published = due_ns = 0
    for batch in _paced(first, batches, rate):
        wire.send(encode.multi_publish(flights.TOPIC, batch))
        next(answers)
        published += len(batch)
        if SYSTEM_CLOCK.monotonic_ns() >= due_ns:
            report(published=published)
            due_ns = SYSTEM_CLOCK.monotonic_ns() + _REPORT_EVERY_NS
    report(published=published, finished=True)


def _batches(chunks: Iterable[list[bytes]], events: int) -> Iterator[list[bytes]]:
    """The first ``events`` events, some hundred at a time."""
    every = islice((event for chunk in chunks for event in chunk), events)
    while batch := list(islice(every, _BATCH)):
        yield batch


def _paced(first: list[bytes], rest: Iterator[list[bytes]], rate: int) -> Iterator[list[bytes]]:
    """The batches, held back so that ``rate`` events a second leave; 0 means no holding back."""
    started_ns = SYSTEM_CLOCK.monotonic_ns()
    sent = 0
    batch: list[bytes] | None = first
    while batch is not None:
        if rate:
            early_ns = started_ns + sent * 1_000_000_000 // rate - SYSTEM_CLOCK.monotonic_ns()
            time.sleep(max(0, early_ns) / 1e9)
        yield batch
        sent += len(batch)
        batch = next(rest, None)


if __name__ == "__main__":
    main()
