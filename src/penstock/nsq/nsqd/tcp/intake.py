"""A connection's intake of bytes: by compiled code if plain, else by the parser."""

from __future__ import annotations

from typing import Any, TypeAlias

from penstock import lane


class ParserIntake:
    """The intake without compiled code: the parser sees all."""

    def take_plain(self, *_: Any) -> None:
        """Take plain publishes from now on."""

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        self.commands_received(data)

    def commands_received(self, data: bytes) -> None:
        """Take what is for the parser."""
        raise NotImplementedError


Intake: TypeAlias = ParserIntake
if lane.COMPILED is not None:
    Intake = lane.COMPILED.Commands  # type: ignore[misc]  # a class, and chosen once
