"""The rate at which messages come to each queue, between looks at its end."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_S: Final = 60.0
APART_S: Final = 1.0
"""The least time between two looks that count."""
QUEUES_MAX: Final = 65_536


class QueueRates:
    """The looks of the last minute, whoever has asked. Those that are old are forgotten."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str, int], deque[tuple[float, int]]] = {}

    def take(self, queue: tuple[str, str, int], time_s: float, end: int) -> float | None:
        """A look at a queue (topic, broker, number); messages a second, None with the first."""
        looks = self._looks.get(queue)
        if looks is None:
            if len(self._looks) >= QUEUES_MAX:
                self._forget(time_s)
            looks = self._looks[queue] = deque()
        while looks and (looks[-1][0] > time_s or looks[-1][1] > end):
            looks.clear()  # the clock was set back, or the queue was made again
        if not looks or time_s - looks[-1][0] >= APART_S:
            looks.append((time_s, end))
        while len(looks) > 2 and looks[0][0] < time_s - WINDOW_S:
            looks.popleft()
        began, before = looks[0]
        return (end - before) / (time_s - began) if time_s > began else None

    def _forget(self, time_s: float) -> None:
        old = [queue for queue, looks in self._looks.items() if looks[-1][0] < time_s - WINDOW_S]
        for queue in old or list(self._looks):
            del self._looks[queue]
