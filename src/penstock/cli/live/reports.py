"""Reports of a child to its parent: one JSON object a line on its standard output."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import IO, Any


def report(**facts: Any) -> None:
    """Tell the parent; used in the child."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def parse(line: str) -> dict[str, Any] | None:
    """One report, or None for anything else, such as what a library prints or half a line."""
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


class Reports:
    """The reports of several children, collected by a thread each; used in the parent."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def follow(
        self,
        stream: IO[str],
        handle: Callable[[dict[str, Any]], None],
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """Have ``deliver`` call ``handle`` with each report of this stream, then ``at_end``."""

        def read() -> None:
            with stream:
                for line in stream:
                    facts = parse(line)
                    if facts is not None:
                        self._queue.put(partial(handle, facts))
            if at_end is not None:
                self._queue.put(at_end)

        threading.Thread(target=read, daemon=True).start()

    def deliver(self) -> None:
        """Call the handlers for what has come, in this thread."""
        while not self._queue.empty():
            self._queue.get()()
