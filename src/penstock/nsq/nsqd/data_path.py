"""Opening a data path as NSQ's: Go's queue files are taken over, and nsqd.dat is read."""

from __future__ import annotations

import logging
import os

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.publish.bounds import Bounds
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import (
    ConfigError,
    DiskFullError,
    LaterFormatError,
    PenstockError,
    StorageError,
)
from penstock.net.budget import Memory
from penstock.net.loop import StopRequested, interruptible
from penstock.node.node import Node, NodeOptions
from penstock.nsq.nsqd import metadata
from penstock.nsq.nsqd.http.https import server_tls
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.protocol.letters import Letters
from penstock.nsq.takeover.importer import import_queues
from penstock.replication.standing import Role, read_standing
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.retention import Retention
from penstock.storage.store import Store

logger = logging.getLogger("penstock.nsqd")


async def open_node(
    options: NsqdOptions, clock: Clock = SYSTEM_CLOCK, program: str = "nsqd"
) -> Node:
    """The node of the options' data path; daemons open their ports over it, then it is started.

    Raises ConfigError or StorageError for options and data that cannot be used, PenstockError for
    nsqd.dat, in Go's words. Nothing is left open then.
    """
    options.check()
    server_tls(options)  # what an nsqd would refuse is refused before any data is touched
    AuthServers.of(options)
    broker = _open_broker(options, clock)
    try:
        file = await _metadata(broker)
    except PenstockError:
        broker.close()
        raise
    node_options = NodeOptions(
        options.durability, options.sync_every, options.sync_timeout, options.group_retention,
        options.e2e_processing_latency_percentiles, options.replicas(), program,
    )  # fmt: skip
    return Node(broker, node_options, clock, Memory.of(options), file, Letters)


def _check_standing(store: Store) -> None:
    """Raise ConfigError for a data path that is no primary's: what is published there would be
    known to nobody else.
    """
    standing = read_standing(store.disk, store.data_path)
    if standing is not None and standing.role is not Role.PRIMARY:
        raise ConfigError(f"the data path {store.data_path} is that of a {standing.role} node: "
                          f"nsqd --follow={standing.primary} opens it")  # fmt: skip


async def _metadata(broker: Broker) -> metadata.MetadataFile:
    try:
        metadata.load(broker)
        file = metadata.MetadataFile(broker)
    except StorageError as error:
        raise PenstockError(f"failed to load metadata - {error}") from error
    except ConfigError as error:  # its text is whole as it is, in Go's words
        raise PenstockError(str(error)) from error
    try:
        await file.write()
    except StorageError as error:
        if not (isinstance(error, DiskFullError) and broker.topics):
            raise PenstockError(f"failed to persist metadata - {error}") from error
        # Consumers make room, by what is there; Go's nsqd does not start.
        logger.error("failed to persist metadata - %s", error)
    return file


def _open_broker(options: NsqdOptions, clock: Clock) -> Broker:
    log_options = LogOptions(
        max_bytes_per_file=options.max_bytes_per_file,
        mem_queue_size=max(0, options.mem_queue_size),
        durability=options.durability,
        awaits_copies=options.replicas_acked > 0,
    )
    data_path = options.data_path or os.getcwd()
    try:
        store = Store(OsDisk(), data_path, log_options)
    except LaterFormatError:
        raise
    except StorageError as error:
        raise ConfigError(f"failed to lock data-path: {error}") from error
    broker_options = BrokerOptions(
        node_id=options.node_id,
        channel=ChannelOptions(
            max(0, options.mem_queue_size),
            options.max_msg_timeout,
            options.latency_window(),
            options.max_attempts,
            options.dead_letter_topic,
        ),
        retention=Retention(options.retention_time, options.retention_bytes),
        bounds=Bounds(options.max_depth, options.max_bytes, options.overflow),
    )
    try:
        with interruptible():
            _check_standing(store)
            import_queues(store, clock, options.node_id, options.max_msg_size)
            return Broker(store, clock, SystemChance(), broker_options)
    except StopRequested:
        logger.info("NSQ: stopped while opening the data path; the next start does it again")
        store.close()
        raise
    except PenstockError:
        store.close()
        raise
