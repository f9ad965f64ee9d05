"""Child of the demo: an ordinary NSQ consumer that counts and finishes what it is given."""

from __future__ import annotations

import sys

from penstock.cli.live.children import report
from penstock.cli.live.flights import TOPIC
from penstock.cli.live.small_client import Wire
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import MessageBlock

CHANNEL = "tally"
_READY = 2_500
_REPORT_EVERY_NS = 50_000_000


def main() -> None:
    """``tally ADDRESS EVENTS``; ends when it has counted as many."""
    address, events = sys.argv[1], int(sys.argv[2])
    try:
        count(address, events)
    except PenstockError as error:
        report(error=str(error))
        sys.exit(1)


def count(address: str, events: int) -> None:
    """Consume that many events. Raises WireError when nsqd refuses or goes away."""
    wire = Wire(address)
    wire.send(encode.subscribe(TOPIC, CHANNEL))
    frames = wire.frames()
    next(frames)
    report(state="ready")
    wire.send(encode.ready(_READY))
    consumed = again = due_ns = 0
    while consumed < events:
        block = next(frames)
        if not isinstance(block, MessageBlock):
            continue
        # Delivered again after a time-out: counted apart, or the sum would be too high.
        repeated = sum(message.attempts > 1 for message in block)
        consumed += len(block) - repeated
        again += repeated
        wire.send(block.finish_commands())
        if SYSTEM_CLOCK.monotonic_ns() >= due_ns:
            report(consumed=consumed, again=again)
            due_ns = SYSTEM_CLOCK.monotonic_ns() + _REPORT_EVERY_NS
    report(consumed=consumed, again=again, finished=True)


if __name__ == "__main__":
    main()
