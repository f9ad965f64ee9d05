"""The consumers of the tools: of the nodes that the flags name, and numbered for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.nsq.tools import lines
from penstock.nsq.tools.flags import ConsumerFlags, check_lookupds, check_nsqds

if TYPE_CHECKING:
    from penstock.nsq.client import Config, Consumer


def new_consumer(flags: ConsumerFlags, topic: str, channel: str, config: Config) -> Consumer:
    """A consumer that is still to be entered; whoever enters it closes it.

    It raises NotConnected when a node given by its address cannot be reached the first time.
    Raises ToolError for invalid addresses.
    """
    from penstock.nsq.client import Consumer  # late, so that a wrong flag is answered quickly

    check_nsqds(flags.nsqd_tcp_addresses)
    check_lookupds(flags.lookupd_http_addresses)
    consumer = Consumer(
        topic,
        channel,
        nsqd_tcp_addresses=flags.nsqd_tcp_addresses,
        lookupd_http_addresses=flags.lookupd_http_addresses,
        config=config,
        required=True,
    )
    lines.count_consumer(topic, channel)
    return consumer
