"""Opening a broker's store and ports in its role: as a master, a slave, or one that was fenced."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.cli.shared.dialects import nsq_letters
from penstock.cli.shared.starting import starting
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.net.tcp import ListenError, check_free
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.node.opening import open_node
from penstock.node.ports import Ports, check_ports
from penstock.replication.port import ReplicationPort
from penstock.replication.primary import Primary
from penstock.replication.standby_api import serve
from penstock.replication.starting import standby_for
from penstock.replication.state import ReplicationState, Role, check_primary, read_state
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.slaves import master_address
from penstock.storage.files.disk import OsDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from penstock.net.gate import ProtocolFactory
    from penstock.net.vitals.vitals import Vitals
    from penstock.node.node import Node
    from penstock.node.node_options import NodeOptions
    from penstock.replication.standby import EndRole, Standby
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.storage.store import Store

PROGRAM: Final = "mqbroker"
TRY_NS: Final = 10 * SECOND
"""The time that a slave tries to reach a master before it believes that it is elsewhere."""
FAILED: Final = "the broker cannot start"
LEFT_BY_GO: Final = re.compile(r"\.diskqueue\.|^go-nsqd-import|^nsqd\.\d+\.dat$")
"""Names of a Go nsqd's files, and of those that are being taken over."""

logger = logging.getLogger("penstock.mqbroker")


class Opening:
    """One opening of a broker, closed with ``running``; ``turn`` is called when its role ends."""

    def __init__(
        self,
        settings: BrokerSettings,
        options: Callable[[str], NodeOptions],
        running: AsyncExitStack,
        turn: EndRole,
        *,
        is_turn: bool,
    ) -> None:
        """``options`` makes those of the node beneath, of the address that a slave follows."""
        self._settings = settings
        self._options = options
        self._running = running
        self._turn = turn
        self._is_turn = is_turn
        self._opened_ns = SYSTEM_CLOCK.monotonic_ns()

    async def open(self) -> RocketBroker | None:
        """Open all; None for a fenced broker, which opens no port of RocketMQ's.

        Raises PenstockError with one line for the user.
        """
        settings = self._settings
        for warning in () if self._is_turn else settings.check():
            logger.warning("%s", warning)
        if not settings.is_slave:
            self._check_standing()
        followed = await self._followed() if settings.is_slave else ""
        options = self._options(settings.ha_url(followed))
        with starting(FAILED):
            ports = Ports(options, self._replication_address(), settings.ha_tls())
            check_ports(options)
            standby = await standby_for(
                options, self._turn, is_turn=self._is_turn, ports=ports, program=PROGRAM
            )
        if standby is None:
            broker: RocketBroker | None = await self._master(options, ports)
        else:
            broker = await self._standby(standby)
        if broker is not None:  # opened again, the ports are the same
            settings.listen_port = broker.port
        if ports.replication:
            settings.ha_listen_port = ports.replication
        return broker

    def _check_standing(self) -> None:
        """Raise PenstockError for the store of a slave, which no master opens."""
        state = _state_of(self._settings)
        if state is not None and state.role is Role.FOLLOWER:
            raise PenstockError(
                f"the store {self._settings.store_path_root_dir} is a slave's, a copy of the "
                f"broker at {state.primary}: start it with brokerRole=SLAVE and a brokerId "
                "greater than 0; then `penstock promote` makes it master"
            )

    # --- the copy of a master ------------------------------------------------------------------

    async def _followed(self) -> str:
        """The address that a slave follows: as it is told, as name servers say, or as before."""
        settings = self._settings
        if settings.ha_master_address:
            return settings.ha_master_address
        state = _state_of(settings)
        known = state.primary if state is not None else ""
        if not known:
            return await master_address.wait_for_master(settings)
        if state is not None and state.role is Role.PRIMARY and self._is_turn:
            return known
        return await master_address.master(settings) or known

    async def _standby(self, standby: Standby) -> RocketBroker | None:
        """Open the ports of a slave, or of a broker that was fenced."""
        tcp = self._refusals(standby) if has_nsq_ports(standby.options) else None
        self._running.push_async_callback(standby.close)
        with starting(FAILED):
            await standby.open(serve(standby), tcp)
            await self._monitoring(standby.vitals)
        if standby.pulling is None:
            return None
        node = standby.node()
        broker = await RocketBroker.start(self._settings, node, ha_port=standby.ports.replication)
        self._running.push_async_callback(broker.close)
        slave = broker.services.follow(node.copied)
        slave.update()
        standby.stepped.append(slave.update)
        if not self._settings.ha_master_address:
            broker.services.name_servers.told_master = partial(self._told_master, standby)
        return broker

    def _refusals(self, standby: Standby) -> ProtocolFactory:
        """The answer on the TCP port for NSQ of a slave, or of a broker that was fenced."""
        from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort

        refusals = RefusalPort(standby.refusal_line)
        self._running.callback(refusals.close_connections)
        return refusals

    def _told_master(self, standby: Standby, address: str) -> None:
        """A name server says where the master is copied: follow it there, if it is gone from where
        it was.
        """
        address = self._settings.ha_url(address)
        followed, pulling = standby.state.primary, standby.pulling
        is_young = standby.clock.monotonic_ns() - self._opened_ns < TRY_NS
        if pulling is None or pulling.error is None or is_young:
            return
        if address not in (followed, standby.address):
            logger.warning("the master is copied at %s now, not at %s", address, followed)
            self._turn()

    # --- a master ------------------------------------------------------------------------------

    async def _master(self, options: NodeOptions, ports: Ports) -> RocketBroker:
        settings, running = self._settings, self._running
        if settings.is_slave:
            settings = settings.as_master()
        with starting(FAILED):
            if has_nsq_ports(options):
                node = await self._with_nsq(options, ports)
            else:
                node = await self._without_nsq(options, ports)
        broker = await RocketBroker.start(settings, node, ha_port=ports.replication)
        running.push_async_callback(broker.close)
        # Last: the broker keeps messages that no channel holds, so nothing may be deleted yet.
        node.start()
        return broker

    async def _with_nsq(self, options: NodeOptions, ports: Ports) -> Node:
        """The node with NSQ's ports over it, and the one for slaves."""
        from penstock.nsq.nsqd.daemon import Nsqd, log_versions
        from penstock.nsq.nsqd.data_path import open_node
        from penstock.nsq.nsqd.nsqd_options import NsqdOptions

        assert isinstance(options, NsqdOptions)
        log_versions(options)
        node = await open_node(options, program=PROGRAM)
        self._running.push_async_callback(node.close)
        await self._monitoring(node.vitals, node)
        nsqd = await Nsqd.open(node, options, self._turn, ports)
        self._running.push_async_callback(nsqd.close)
        return node

    async def _without_nsq(self, options: NodeOptions, ports: Ports) -> Node:
        """The node with the port for slaves alone; none of NSQ's code is loaded."""
        # Events of the node beneath are news only to those who use NSQ's ports.
        for name in ("penstock.node", "penstock.nsqd"):
            logging.getLogger(name).setLevel(max(options.log_level, logging.WARNING))
        prepare = partial(prepare_store, options)
        node = await open_node(options, prepare, nsq_letters, program=PROGRAM)
        self._running.push_async_callback(node.close)
        await self._monitoring(node.vitals, node)
        primary = Primary.of(node, options, self._turn)
        replication = await ReplicationPort.open(primary, node, options, ports)
        self._running.push_async_callback(replication.close)
        self._running.push_async_callback(ports.close)
        return node

    async def _monitoring(self, vitals: Vitals, node: Node | None = None) -> None:
        if self._settings.monitoring_address:
            port = await MonitoringPort.open(self._settings.monitoring_address, vitals, logger)
            self._running.push_async_callback(port.close)
            if node is not None:
                node.stand_in.listeners.append(port.listener)

    def _replication_address(self) -> str:
        """The address of the port for slaves; empty where none is to be opened."""
        settings = self._settings
        address = settings.ha_address()
        if not address:
            logger.info(
                "no slave can copy this broker: %s", settings.closed_by or "durability=memory"
            )
            return ""
        if settings.ha_listen_port or settings.is_slave:
            return address
        try:
            check_free(address)
        except ListenError as error:
            logger.warning("no slave can copy this broker: %s; haListenPort sets another", error)
            return ""
        return address


def has_nsq_ports(options: NodeOptions) -> bool:
    """True where NSQ's ports are to be opened beside RocketMQ's."""
    return bool(options.tcp_address or options.http_address)


def prepare_store(options: NodeOptions, store: Store) -> None:
    """Refuse a store that is not a primary's; take over what a Go nsqd has left in it."""
    check_primary(store)
    if any(map(LEFT_BY_GO.search, store.disk.list(store.data_path))):
        from penstock.nsq.takeover.importer import import_queues

        import_queues(store, SYSTEM_CLOCK, options.node_id, options.max_msg_size)


def _state_of(settings: BrokerSettings) -> ReplicationState | None:
    """Raise StorageError or ConfigError for a file that is damaged."""
    return read_state(OsDisk(), settings.store_path_root_dir)
