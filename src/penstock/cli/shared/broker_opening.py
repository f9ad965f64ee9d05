"""Opening a broker's store and ports in its role: as a master, a slave, or one that was fenced."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.cli.shared.starting import starting
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.net.tcp import ListenError, check_free
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.nsq.nsqd.copies.copies_port import CopiesPort
from penstock.nsq.nsqd.copies.primary import Primary
from penstock.nsq.nsqd.copies.standby_api import serve
from penstock.nsq.nsqd.copies.starting import standby_for
from penstock.nsq.nsqd.daemon import Nsqd, log_versions
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.ports import Ports, check_ports
from penstock.replication.standing import Role, Standing, read_standing
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.slaves import master_address
from penstock.storage.files.disk import OsDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from penstock.net.vitals.vitals import Vitals
    from penstock.node.node import Node
    from penstock.nsq.nsqd.copies.standby import EndRole, Standby
    from penstock.nsq.nsqd.options import NsqdOptions
    from penstock.rocketmq.broker.settings import BrokerSettings

PROGRAM: Final = "mqbroker"
TRY_NS: Final = 10 * SECOND
"""The time that a slave tries to reach a master before it believes that it is elsewhere."""
FAILED: Final = "the broker cannot start"

logger = logging.getLogger("penstock.mqbroker")


class Opening:
    """One opening of a broker, closed with ``running``; ``turn`` is called when its role ends."""

    def __init__(
        self,
        settings: BrokerSettings,
        options: Callable[[str], NsqdOptions],
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
            ports = Ports(options, self._copies_address(), settings.ha_tls())
            check_ports(options)
            standby = await standby_for(options, self._turn, is_turn=self._is_turn, ports=ports,
                                        program=PROGRAM)  # fmt: skip
        if standby is None:
            broker: RocketBroker | None = await self._master(options, ports)
        else:
            broker = await self._standby(standby)
        if broker is not None:  # opened again, the ports are the same
            settings.listen_port = broker.port
        if ports.copies:
            settings.ha_listen_port = ports.copies
        return broker

    def _check_standing(self) -> None:
        """Raise PenstockError for the store of a slave, which no master opens."""
        standing = _standing_of(self._settings)
        if standing is not None and standing.role is Role.FOLLOWER:
            raise PenstockError(
                f"the store {self._settings.store_path_root_dir} is a slave's, a copy of the "
                f"broker at {standing.primary}: start it with brokerRole=SLAVE and a brokerId "
                "greater than 0; then `penstock promote` makes it master"
            )

    # --- the copy of a master ------------------------------------------------------------------

    async def _followed(self) -> str:
        """The address that a slave follows: as it is told, as name servers say, or as before."""
        settings = self._settings
        if settings.ha_master_address:
            return settings.ha_master_address
        standing = _standing_of(settings)
        known = standing.primary if standing is not None else ""
        if not known:
            return await master_address.wait_for_master(settings)
        if standing is not None and standing.role is Role.PRIMARY and self._is_turn:
            return known
        return await master_address.master(settings) or known

    async def _standby(self, standby: Standby) -> RocketBroker | None:
        """Open the ports of a slave, or of a broker that was fenced."""
        self._running.push_async_callback(standby.close)
        with starting(FAILED):
            await standby.open(serve(standby))
            await self._monitoring(standby.vitals)
        if standby.pulling is None:
            return None
        node = standby.node()
        broker = await RocketBroker.start(self._settings, node, ha_port=standby.ports.copies)
        self._running.push_async_callback(broker.close)
        slave = broker.services.follow(node.copied)
        slave.update()
        standby.pulling.stepped.append(slave.update)
        if not self._settings.ha_master_address:
            broker.services.name_servers.told_master = partial(self._told_master, standby)
        return broker

    def _told_master(self, standby: Standby, address: str) -> None:
        """A name server says where the master is copied: follow it there, if it is gone from where
        it was.
        """
        address = self._settings.ha_url(address)
        followed, pulling = standby.standing.primary, standby.pulling
        is_young = standby.clock.monotonic_ns() - self._opened_ns < TRY_NS
        if pulling is None or pulling.error is None or is_young:
            return
        if address not in (followed, standby.address):
            logger.warning("the master is copied at %s now, not at %s", address, followed)
            self._turn()

    # --- a master ------------------------------------------------------------------------------

    async def _master(self, options: NsqdOptions, ports: Ports) -> RocketBroker:
        settings, running = self._settings, self._running
        if settings.is_slave:
            settings = settings.as_master()
        if options.tcp_address or options.http_address:
            log_versions(options)
        else:
            # Events of the node beneath are news only to those who use NSQ's ports.
            for name in ("penstock.node", "penstock.nsqd"):
                logging.getLogger(name).setLevel(max(options.log_level, logging.WARNING))
        with starting(FAILED):
            node = await open_node(options, program=PROGRAM)
            running.push_async_callback(node.close)
            await self._monitoring(node.vitals)
            await self._nsq(node, options, ports)
        broker = await RocketBroker.start(settings, node, ha_port=ports.copies)
        running.push_async_callback(broker.close)
        node.start()
        return broker

    async def _nsq(self, node: Node, options: NsqdOptions, ports: Ports) -> None:
        """Open NSQ's ports where they are wanted, and the one for slaves."""
        if options.tcp_address or options.http_address:
            nsqd = await Nsqd.open(node, options, self._turn, ports)
            self._running.push_async_callback(nsqd.close)
            return
        primary = Primary.of(node, options, self._turn)
        copies = await CopiesPort.open(primary, node, options, ports)
        self._running.push_async_callback(copies.close)
        self._running.push_async_callback(ports.close)

    async def _monitoring(self, vitals: Vitals) -> None:
        if self._settings.monitoring_address:
            port = await MonitoringPort.open(self._settings.monitoring_address, vitals, logger)
            self._running.push_async_callback(port.close)

    def _copies_address(self) -> str:
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


def _standing_of(settings: BrokerSettings) -> Standing | None:
    """Raise StorageError or ConfigError for a file that is damaged."""
    return read_standing(OsDisk(), settings.store_path_root_dir)
