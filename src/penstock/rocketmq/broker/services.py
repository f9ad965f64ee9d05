"""What goes on in a broker beside its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.rocketmq.broker import heartbeats, orderly
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.admin import runtime_info
from penstock.rocketmq.broker.delays.schedule import Schedule
from penstock.rocketmq.broker.delays.timers import Timers
from penstock.rocketmq.broker.key_index import KeyIndex
from penstock.rocketmq.broker.ordered_pops import OLD_SCAN_S
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.broker.pop_notices import Arrivals
from penstock.rocketmq.broker.pops import COMMIT_S, Pops
from penstock.rocketmq.broker.request_modes import FILE as MODES_FILE
from penstock.rocketmq.broker.request_modes import RequestModes
from penstock.rocketmq.broker.retention import HOLD_S
from penstock.rocketmq.broker.transactions.checks import TransactionChecks
from penstock.rocketmq.broker.transactions.ending import Transactions
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.storage.disk import Disk


def add_services(node: Node, disk: Disk) -> None:
    """Give a node its services, which are started in this order and closed in the opposite one.

    Raises ConfigError, StorageError.
    """
    node.schedule = Schedule(node)
    node.timers = Timers(node)
    node.transactions = Transactions(node)
    node.keys = _key_index(node, disk)
    _add_popping(node)
    node.services = [
        node.keys,
        heartbeats.silent_clients(node),
        orderly.lock_expiry(node),
        runtime_info.sampling(node),
        node.schedule,
        node.timers,
        node.transactions,
        TransactionChecks(node),
        Periodic("offsets of popping groups", COMMIT_S, node.pops.commit),
        Periodic("old batches of ordered pops", OLD_SCAN_S, node.pops.ordered.forget_old),
        Periodic("groups that hold NSQ's topics", HOLD_S, node.retention.hold),
    ]
    if node.settings.acl_enable:
        files = AclFiles(disk, node.settings.access_rules_directory, node.clock)
        node.acl = Acl(files)
        node.services.append(node.acl)


def _add_popping(node: Node) -> None:
    node.pops = Pops(node)
    node.arrivals = Arrivals(node.store)
    node.request_modes = RequestModes()
    node.state.add(MODES_FILE, node.request_modes.as_json, node.request_modes.load)
    node.store.deleted.append(node.request_modes.forget_topic)


def _key_index(node: Node, disk: Disk) -> KeyIndex:
    topics = node.base.broker.topics

    def log_of(name: str) -> Log | None:
        topic = topics.get(name)
        return topic.log if topic is not None and isinstance(topic.log, Log) else None

    keys = KeyIndex(disk, log_of, node.clock)
    if node.settings.message_index_enable:
        node.store.appended.append(keys.appended)
        node.store.deleted.append(keys.deleted)
        for name in topics:  # what was stored while nobody indexed
            keys.note(name)
    return keys
