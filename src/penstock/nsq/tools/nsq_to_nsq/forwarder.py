"""Forwarding of one topic: what was delivered together is published together."""

from __future__ import annotations

import asyncio
import logging

from penstock.nsq.client import Consumer, Delivery
from penstock.nsq.client.errors import BadBody, BadMessage, ClientError
from penstock.nsq.client.events import tell
from penstock.nsq.tools.errors import describe, say
from penstock.nsq.tools.nsq_to_nsq.destinations import Destinations
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, Missing, NoObject
from penstock.nsq.tools.nsq_to_nsq.ways import Picked, Run


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
