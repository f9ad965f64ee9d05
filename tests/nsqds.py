"""A whole nsqd in the test's own loop: a node of its own and NSQ's ports over it."""

from __future__ import annotations

from penstock.cli.shared.starting import starting
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import PenstockError
from penstock.nsq.nsqd.daemon import Nsqd
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.nsqd_options import NsqdOptions


async def start(options: NsqdOptions, clock: Clock = SYSTEM_CLOCK) -> Nsqd:
    """Open the data path and the ports, as the command does. Raises PenstockError."""
    with starting("failed to instantiate nsqd"):
        node = await open_node(options, clock)
        try:
            nsqd = await Nsqd.open(node, options)
        except PenstockError:
            await node.close()
            raise
    node.start()
    return nsqd


async def stop(nsqd: Nsqd) -> None:
    """End the nsqd, and the node beneath it."""
    await nsqd.close()
    await nsqd.node.close()
