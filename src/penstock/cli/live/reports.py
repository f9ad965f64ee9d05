"""What a child tells its parent: one JSON object a line on its standard output."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, Any


def report(**facts: Any) -> None:
    """Tell the parent; used in the child."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Reports:
    """The reports of several children, collected by a thread each; used in the parent."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[dict[str, Any]], None], dict[str, Any]]] = (
            SimpleQueue()
        )

    def follow(self, stream: IO[str], handle: Callable[[dict[str, Any]], None]) -> None:
        """Have ``handle`` called in ``deliver`` with each report of this stream."""

        def read() -> None:
            with stream:
                for line in stream:
                    self._queue.put((handle, json.loads(line)))

        threading.Thread(target=read, daemon=True).start()

    def deliver(self) -> None:
        """Call the handlers for what has come, in this thread."""
        while not self._queue.empty():
            handle, facts = self._queue.get()
            handle(facts)
