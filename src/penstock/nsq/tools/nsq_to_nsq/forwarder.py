"""Forwarding of one topic: what was delivered together is published together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol

from penstock.nsq.client import Consumer, Delivery, Message
from penstock.nsq.client.errors import BadBody, BadMessage, ClientError
from penstock.nsq.client.events import tell
from penstock.nsq.tools.errors import describe, say
from penstock.nsq.tools.nsq_to_nsq.destinations import Destinations
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, Missing, NoObject

BYTES_MAX: Final = 4_000_000
"""The size of the bodies in a run: a node takes 5,000,000 and more, unless told otherwise."""


class Answerable(Protocol):
    """Several messages, to be answered together: a Delivery, or a few of its messages."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Answerable:
        """The messages from ``first`` up to, not including, ``last``: for answers to parts."""
        ...

    def finish(self) -> bool:
        """All of them are done."""
        ...

    def requeue(self) -> bool:
        """All of them come again later, and the consumer slows down."""
        ...


class Picked:
    """Some messages of a delivery."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def part(self, first: int, last: int) -> Picked:
        return Picked(self._messages[first:last])

    def finish(self) -> bool:
        answered = [message.finish() for message in self._messages]
        return all(answered)

    def requeue(self) -> bool:
        answered = [message.requeue() for message in self._messages]
        return all(answered)

    @property
    def first_id(self) -> bytes:
        """The id of the first message."""
        return self._messages[0].id


class Run:
    """Bodies to pass on, and the messages to answer when that has been done or has failed."""

    __slots__ = ("bodies", "messages")

    def __init__(self, messages: Answerable, bodies: Sequence[bytes]) -> None:
        self.messages = messages
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def first_id(self) -> str:
        """The id of the first message, as the log has it."""
        if isinstance(self.messages, Delivery):
            return self.messages.block.ids(0, 1)[0].decode("ascii", "replace")
        assert isinstance(self.messages, Picked)
        return self.messages.first_id.decode("ascii", "replace")

    def shares(self, count: int) -> Iterator[Run]:
        """At least ``count`` runs of about as many messages each, if there are enough of them."""
        bounds = [len(self) * number // count for number in range(count + 1)]
        for first, last in pairwise(bounds):
            if last > first:
                yield from self._part(first, last)._small_enough()

    def halves(self) -> tuple[Run, Run]:
        """Two runs of a run of several."""
        middle = len(self) // 2
        return self._part(0, middle), self._part(middle, len(self))

    def _part(self, first: int, last: int) -> Run:
        if last - first == len(self):
            return self
        return Run(self.messages.part(first, last), self.bodies[first:last])

    def _small_enough(self) -> Iterator[Run]:
        if len(self) == 1 or sum(map(len, self.bodies)) <= BYTES_MAX:
            yield self
        else:
            for half in self.halves():
                yield from half._small_enough()


class Forwarder:
    """Everything that ``consumer`` brings goes to ``topic`` at the destinations, if the filter says
    so.

    Messages are finished when a destination has them, and requeued, with backoff, when it could not
    be had. As many are under way as may be in flight.
    """

    def __init__(
        self, consumer: Consumer, topic: str, destinations: Destinations, json_filter: JsonFilter
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._destinations = destinations
        self._filter = json_filter

    async def run(self) -> None:
        """Run until the consumer is closed, and all that was under way is answered."""
        async with asyncio.TaskGroup() as group:
            async for delivery in self._consumer.deliveries():
                run = self._filtered(delivery) if self._filter.is_needed else _whole(delivery)
                if run is not None:
                    for share in run.shares(self._destinations.shares):
                        group.create_task(self.pass_on(share))

    async def pass_on(self, run: Run) -> None:
        """Publish these messages and answer them.

        One that a destination will not take spoils the whole command. So they are tried in ever
        smaller runs, until only those that were refused for themselves are left over.
        """
        try:
            await self._destinations.publish(self._topic, run.bodies)
        except (BadMessage, BadBody) as error:
            if len(run) == 1:
                self._fail(run, error)
            else:
                for half in run.halves():
                    await self.pass_on(half)
        except ClientError as error:
            self._fail(run, error)
        else:
            run.messages.finish()

    def _filtered(self, delivery: Delivery) -> Run | None:
        """The messages that pass the filter; those that do not are answered."""
        picked, bodies = [], []
        for message in delivery.messages():
            try:
                body = self._filter.apply(message.body)
            except NoObject:
                say(f"ERROR: Unable to decode json: {message.body.decode('utf-8', 'replace')}")
                message.finish()
            except Missing as error:
                say(f"ERROR: {error}")
                self._tell_failed("backoff", message.id.decode("ascii", "replace"))
                message.requeue()
            else:
                if body is None:
                    message.finish()
                else:
                    picked.append(message)
                    bodies.append(body)
        return Run(Picked(picked), bodies) if picked else None

    def _fail(self, run: Run, error: ClientError) -> None:
        """One line for a run: it fails for one reason."""
        more = f" and {len(run) - 1} more" if len(run) > 1 else ""
        self._tell_failed(describe(error), run.first_id + more)
        run.messages.requeue()

    def _tell_failed(self, reason: str, which: str) -> None:
        tell(
            logging.ERROR,
            "handler-failed",
            f"Handler returned error ({reason}) for msg {which}",
            topic=self._consumer.topic,
            channel=self._consumer.channel,
        )


def _whole(delivery: Delivery) -> Run:
    return Run(delivery, delivery.bodies())
