"""Messages that arrived together, the same for both clients."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.nsq.client.message import Link, Message
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import MessageBlock


class Delivery:
    """Messages of one connection that arrived together: the quick way to handle many."""

    def __init__(self, link: Link, block: MessageBlock) -> None:
        self._link = link
        self._block = block
        self._settled = False

    def __len__(self) -> int:
        return self._block.count

    @property
    def is_alive(self) -> bool:
        """Whether the connection that brought them is still there to take answers."""
        return self._link.is_open

    def bodies(self) -> list[bytes]:
        """All bodies, in order."""
        return self._block.bodies()

    @property
    def block(self) -> MessageBlock:
        """The messages with their ids, times and attempts."""
        return self._block

    def messages(self) -> Iterator[Message]:
        """The messages one by one, each to be answered by itself."""
        return (Message(raw, self._link) for raw in self._block)

    def finish(self) -> bool:
        """All of them are done; False when their connection is gone."""
        return self._settle(self._block.finish_commands())

    def requeue(self, delay: float = 0.0) -> bool:
        """Deliver all of them again, ``delay`` seconds from now."""
        milliseconds = int(delay * 1000)
        lines = [encode.requeue(identifier, milliseconds) for identifier in self._block.ids()]
        return self._settle(b"".join(lines))

    def touch(self) -> bool:
        """Start the time-outs of all of them anew."""
        lines = b"".join(map(encode.touch, self._block.ids()))
        return not self._settled and self._link.answer(lines)

    def _settle(self, commands: bytes) -> bool:
        if self._settled:
            return False
        self._settled = True
        self._link.settled(len(self))
        return self._link.answer(commands)
