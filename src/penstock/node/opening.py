"""Opening a data path for the daemons over it: its store, the topics in it, and nsqd.dat."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

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
from penstock.node import metadata
from penstock.node.dead_letters import Letters
from penstock.node.node import Node
from penstock.node.node_options import NodeOptions
from penstock.storage.files.patient_disk import PatientDisk
from penstock.storage.log import LogOptions
from penstock.storage.retention import Retention
from penstock.storage.store import Store

logger = logging.getLogger("penstock.nsqd")


async def open_node(
    options: NodeOptions,
    prepare: Callable[[Store], object],
    letters: Letters,
    clock: Clock = SYSTEM_CLOCK,
    program: str = "nsqd",
) -> Node:
    """The node of the options' data path; daemons open their ports over it, then it is started.

    ``prepare`` looks at the store before its topics are opened, and may refuse it. Raises
    ConfigError or StorageError for options and data that cannot be used, PenstockError for
    nsqd.dat, in Go's words. Nothing is left open then.
    """
    options.check()
    broker = _open_broker(options, prepare, clock)
    try:
        file = await _metadata(broker)
    except PenstockError:
        broker.close()
        raise
    return Node(broker, options, clock, Memory.of(options), file, letters, program)


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


def _open_broker(options: NodeOptions, prepare: Callable[[Store], object], clock: Clock) -> Broker:
    log_options = LogOptions(
        max_bytes_per_file=options.max_bytes_per_file,
        mem_queue_size=max(0, options.mem_queue_size),
        durability=options.durability,
        awaits_copies=options.replicas_acked > 0,
    )
    data_path = options.data_path or os.getcwd()
    try:
        store = Store(PatientDisk(), data_path, log_options)
    # Not about the lock, which Go's words below are for.
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
        # A signal ends it: a takeover or a recovery may take minutes.
        with interruptible():
            prepare(store)
            return Broker(store, clock, SystemChance(), broker_options)
    except StopRequested:
        logger.info("NSQ: stopped while opening the data path; the next start does it again")
        store.close()
        raise
    except PenstockError:
        store.close()
        raise
