"""nsq_to_nsq at work: a consumer for each topic, a producer for each destination."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from penstock.nsq.client import Consumer
from penstock.nsq.client.hosts import MODES
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import say
from penstock.nsq.tools.flags import check_nsqds, consumer_config, producer_config
from penstock.nsq.tools.forwarding import ROUND_ROBIN
from penstock.nsq.tools.lifecycle import Stop, closed_on
from penstock.nsq.tools.nsq_to_nsq.command_line import ToNsqdFlags
from penstock.nsq.tools.nsq_to_nsq.destinations import Destinations
from penstock.nsq.tools.nsq_to_nsq.forwarder import Forwarder
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter


async def forward(flags: ToNsqdFlags, stop: Stop) -> None:
    """Pass messages on until asked to end."""
    destinations = _destinations(flags)
    json_filter = JsonFilter(flags.required_field, flags.required_value, flags.kept_fields)
    consumers = _consumers(flags)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(destinations.close)
        for consumer in consumers:
            await stack.enter_async_context(consumer)
        async with closed_on(stop, *consumers), asyncio.TaskGroup() as group:
            for consumer in consumers:
                topic = flags.destination_topic or consumer.topic
                forwarder = Forwarder(consumer, topic, destinations, json_filter)
                group.create_task(forwarder.run(), name=f"forward {consumer.topic}")


def _destinations(flags: ToNsqdFlags) -> Destinations:
    check_nsqds(flags.destinations)
    if not flags.is_mode_known:
        say(f"--mode={flags.mode} is not one of {', '.join(MODES)}: taken as {ROUND_ROBIN}")
    return Destinations(
        flags.destinations,
        producer_config(flags.producer_options, "nsq_to_nsq"),
        mode=flags.mode if flags.is_mode_known else ROUND_ROBIN,
        status_every=flags.status_every,
        max_pending=max(1, flags.max_in_flight) * len(flags.topics),
    )


def _consumers(flags: ToNsqdFlags) -> list[Consumer]:
    config = consumer_config(flags, "nsq_to_nsq")
    return [new_consumer(flags, topic, flags.channel, config) for topic in flags.topics]
