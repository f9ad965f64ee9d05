"""A connection's intake of bytes: by compiled code if plain, else by the reader."""

from __future__ import annotations

from typing import Any, TypeAlias

from penstock import lane


class ReaderIntake:
    """The intake without compiled code: the reader sees all."""

    __slots__ = ("held", "owed", "paused", "reader", "slots")

    def take_plain(self, *_: Any) -> None:
        """Take plain publishes from now on."""

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        self.requests_received(data)

    def requests_received(self, data: bytes) -> None:
        """Take what is for the reader."""
        raise NotImplementedError


Intake: TypeAlias = ReaderIntake
if lane.COMPILED is not None:
    Intake = lane.COMPILED.Requests  # type: ignore[misc]  # a class, and chosen once
