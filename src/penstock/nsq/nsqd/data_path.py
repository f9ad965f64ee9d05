"""Opening a data path as NSQ's: Go's queue files are taken over."""

from __future__ import annotations

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.node import opening
from penstock.node.node import Node
from penstock.node.ports import server_tls
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.protocol.dead_letters import DeadLetterFrames
from penstock.nsq.takeover.importer import import_queues
from penstock.replication.state import check_primary
from penstock.storage.store import Store


async def open_node(
    options: NsqdOptions, clock: Clock = SYSTEM_CLOCK, program: str = "nsqd"
) -> Node:
    """``opening.open_node`` for an nsqd, whose options are checked before any data is touched."""

    def prepare(store: Store) -> None:
        check_primary(store)
        import_queues(store, clock, options.node_id, options.max_msg_size)

    server_tls(options)
    AuthServers.of(options)
    return await opening.open_node(options, prepare, DeadLetterFrames, clock, program)
