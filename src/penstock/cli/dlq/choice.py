"""The choice of dead letters that a command is about."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.replay.wanted import Filter
from penstock.core.errors import UsageError
from penstock.nsq.stored import Stored


class Choice:
    """All letters, or those that match everything that is given.

    ``ids`` and ``offsets`` name letters, ``channels`` the channels they came from; ``grep`` and
    ``fields`` are about bodies. Raises UsageError.
    """

    def __init__(
        self,
        *,
        ids: Sequence[str] = (),
        offsets: Sequence[int] = (),
        channels: Sequence[str] = (),
        grep: str | None = None,
        fields: Sequence[str] = (),
    ) -> None:
        self._ids = frozenset(text.lower() for text in ids)
        self._offsets = frozenset(offsets)
        self._channels = frozenset(channels)
        self._filter = Filter(grep, fields)
        for text in self._ids:
            if len(text) != 16 or not set(text) <= set("0123456789abcdef"):
                raise UsageError(f"--id {text}: an id has 16 hexadecimal digits")

    @property
    def takes_all(self) -> bool:
        """True if nothing is required of a letter."""
        named = self._ids or self._offsets or self._channels
        return not named and self._filter.takes_all

    def takes(self, letter: Stored) -> bool:
        """True if the letter is meant."""
        origin = letter.origin
        # The id it had before it died is the one that logs of consumers show.
        known_as = {letter.id} if origin is None else {letter.id, origin.id}
        came_from = {origin.channel} if origin is not None else set()
        return (
            (not self._ids or not known_as.isdisjoint(self._ids))
            and (not self._offsets or letter.offset in self._offsets)
            and (not self._channels or not came_from.isdisjoint(self._channels))
            and self._filter.takes(letter.body)
        )
