"""An observer of one channel's deliveries, from a consumer's getting a message to its answer."""

from __future__ import annotations

from penstock.broker.channels.consumer import Delivery


class DeliveryObserver:
    """Told of ranges of offsets ``[first, next)``, all of which were delivered before; it overrides
    what it needs, and must not call back into the channel.
    """

    __slots__ = ()

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Messages go to a consumer, for the first time or again."""

    def finished(self, first: int, next_: int) -> None:
        """A consumer has finished them."""

    def requeued(self, offset: int) -> None:
        """A consumer has given the message back."""

    def timed_out(self, first: int, next_: int) -> None:
        """No consumer has answered for them in time."""

    def emptied(self) -> None:
        """The channel forgets all that is in flight."""
