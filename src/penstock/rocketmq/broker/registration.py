"""The broker's side of name servers: say who we are and which topics we have.

Each name server has a link with a separate connection, so that a slow one delays nobody; its end
tells the name server that the broker is gone (RocketMQ spec 2.6). Everything is registered at the
start, every half a minute, and at once when a topic changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from penstock.core.errors import PenstockError
from penstock.net.address import join_host_port
from penstock.net.tasks import spawn
from penstock.rocketmq.broker.state.topic_table import READ_WRITE
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol import registration as bodies
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import PROTOCOL_VERSION, Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import Registration, TopicConfig
from penstock.rocketmq.remoting_client import connect, tls_to

if TYPE_CHECKING:
    import ssl

    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

# The bounds that Java's broker keeps its period in, whatever the property says.
PERIOD_MS_MIN: Final = 10_000
PERIOD_MS_MAX: Final = 60_000
RETRY_S: Final = 0.5
"""The delay of the first try to reconnect; doubled with each failure."""
RETRY_S_MAX: Final = 10.0
FAREWELL_S: Final = 1.0
PATIENCE_S: Final = 3.0
"""The longest wait of a request until name servers know what it changed."""

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True)
class Introduction:
    """The broker's registration for name servers, made when it is needed."""

    settings: BrokerSettings
    topics: TopicTable
    port: int
    """The real one, when the settings leave it open."""
    ha_port: int = 0
    """The port for slaves; 0: none can copy this broker, and they are told Java's."""
    _made: tuple[object, bytes] | None = None

    def who(self) -> dict[str, str]:
        """The fields that a broker and its farewell are known by."""
        settings = self.settings
        return {
            "brokerName": settings.broker_name,
            "brokerAddr": join_host_port(settings.broker_ip1, self.port),
            "clusterName": settings.broker_cluster_name,
            "brokerId": str(settings.broker_id),
        }

    def request(self) -> tuple[dict[str, str], bytes]:
        """Fields and body of REGISTER_BROKER."""
        body = self._body()
        return {
            **self.who(),
            # Java's brokers always name a port here, and its slaves take it from the name server.
            "haServerAddr": join_host_port(self.settings.broker_ip1, self.ha_port or self.port + 1),
            "compressed": str(self.settings.compressed_register).lower(),
            # Without the sign bit, as Java computes it (RocketMQ spec 2.6).
            "bodyCrc32": str(crc32(body) & 0x7FFFFFFF),
        }, body

    def _body(self) -> bytes:
        """Made once for all name servers, and again when something changed."""
        version, perm = self.topics.version, self.settings.broker_permission
        compressed = self.settings.compressed_register
        state = (version.counter, version.timestamp_ms, perm, compressed)
        # The table may have thousands of topics, and all name servers get the same bytes.
        if self._made is None or self._made[0] != state:
            table = {name: _limited(each, perm) for name, each in self.topics.configs.items()}
            value = Registration(version.as_json(), table)
            if compressed:
                self._made = state, bodies.encode_compressed(value, PROTOCOL_VERSION)
            else:
                self._made = state, bodies.encode(value)
        return self._made[1]


def _limited(config: TopicConfig, perm: int) -> TopicConfig:
    """A topic as registered by a broker that may not be written to or read from."""
    if perm & READ_WRITE == READ_WRITE:
        return config
    return TopicConfig(config.name, config.read_queues, config.write_queues, perm)


class NameServers:
    """All name servers of a broker."""

    def __init__(self, introduction: Introduction, ordered: Callable[[set[str]], None]) -> None:
        """``ordered`` gets the topics that name servers say are ordered, when they say so.

        Raises ConfigError when the settings of TLS make no sense.
        """
        self.introduction = introduction
        self.told_master: Callable[[str], None] = lambda address: None
        """Told where the master is copied, when a name server says so to a slave."""
        self._ordered = ordered
        self._links: dict[str, _Link] = {}
        self._was_registered = False
        self._tls: ssl.SSLContext | None = None
        settings = introduction.settings
        if settings.use_tls:
            self._tls = tls_to(
                settings.tls_client_trust_cert_path, auth_server=settings.tls_client_auth_server
            )

    def start(self) -> None:
        """Connect to all, and register."""
        self.set_addresses(self.introduction.settings.name_servers())

    def set_addresses(self, addresses: Iterable[str]) -> None:
        """Connect to those that are new and leave those that are not listed any more."""
        wanted = list(addresses)
        for address in [address for address in self._links if address not in wanted]:
            spawn(self._links.pop(address).close(), f"leave name server {address}")
        for address in wanted:
            if address not in self._links:
                self._links[address] = _Link(
                    address, self.introduction, self._answered, self._told_master, self._tls
                )

    def register(self) -> None:
        """Tell all what there is now, without waiting for them."""
        for link in self._links.values():
            link.register()

    async def registered(self) -> None:
        """Tell all what there is now; returns when those know that can be reached, or too late."""
        # Only those that can be reached: one that is down must not hold up every first message of a
        # topic for PATIENCE_S.
        links = [link.registered() for link in self._links.values() if not link.is_failing]
        if links:
            await asyncio.wait(links, timeout=PATIENCE_S)

    async def registered_since(self, changes: int) -> None:
        """Wait so if topics have changed since that number of changes, else not at all.

        An answer that made a topic ends with this: its reader may ask for the route at once.
        """
        if self.introduction.topics.version.counter != changes:
            await self.registered()

    async def ask(self, code: int, fields: dict[str, str], *, seconds: float) -> Command | None:
        """The answer of the first name server that can be reached; None if none can.

        Raises NoAnswerError.
        """
        for link in self._links.values():
            if link.is_connected:
                return await link.ask(code, fields, seconds)
        return None

    def missing(self) -> list[str]:
        """A line until one name server at least has registered the broker, empty from then on.

        A broker is not taken out of service because all name servers are away: clients that have
        its route go on.
        """
        if self._was_registered or not self._links:
            return []
        return [f"NOK - not registered at any name server yet: {', '.join(self._links)}"]

    @property
    def addresses(self) -> list[str]:
        """All name servers that the broker is told to register at."""
        return list(self._links)

    @property
    def connected(self) -> list[str]:
        """The name servers that have registered us on the connection that is open."""
        return [address for address, link in self._links.items() if link.is_connected]

    def _told_master(self, address: str) -> None:
        self.told_master(address)

    def _answered(self) -> None:
        self._was_registered = True
        told = [link.ordered for link in self._links.values() if link.ordered is not None]
        if told:
            # All of them: one that has just started may know fewer orders than the others.
            self._ordered(set().union(*told))

    async def close(self) -> None:
        """Take leave of all and close the connections."""
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()))


class _Link:
    """The connection to one name server."""

    def __init__(
        self,
        address: str,
        introduction: Introduction,
        answered: Callable[[], None],
        told_master: Callable[[str], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._address = address
        self._introduction = introduction
        self._answered = answered
        self._told_master = told_master
        self._tls = tls
        self.ordered: set[str] | None = None
        """The topics that this one says are ordered; None while it says nothing of that."""
        self._connection: Connection | None = None
        self._failures = 0
        self._is_known = False
        self._asked = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task = spawn(self._run(), f"name server {address}")

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._failures

    @property
    def is_failing(self) -> bool:
        """True if the newest try went wrong; False before the first one."""
        return bool(self._failures)

    async def ask(self, code: int, fields: dict[str, str], seconds: float) -> Command | None:
        if self._connection is None:
            return None
        return await self._connection.invoke(code, fields, seconds=seconds)

    def register(self) -> None:
        self._asked.set()

    def registered(self) -> asyncio.Future[None]:
        """Done when a registration that begins after now has ended."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._asked.set()
        return future

    async def _run(self) -> None:
        while True:
            # Before the registration: a change during it asks for another one.
            self._asked.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self._register()
            except Exception as error:  # without this link the name server would forget us
                self._failed(error)
                # Those that came meanwhile, too: the next try is seconds away, and they wait to
                # answer clients.
                waiting += self._waiting
                self._waiting = []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next registration: a while, or less when something changed meanwhile."""
        settings = self._introduction.settings
        # Read each time, as the property may be changed while the broker runs.
        period = min(PERIOD_MS_MAX, max(PERIOD_MS_MIN, settings.register_name_server_period))
        if not self._failures:
            with suppress(TimeoutError):
                async with asyncio.timeout(period / 1000):
                    await self._asked.wait()
        if self._failures:  # changes do not hurry then: nobody is there to be told
            await asyncio.sleep(min(RETRY_S_MAX, RETRY_S * 2.0 ** min(self._failures - 1, 10)))

    async def _register(self) -> None:
        seconds = max(1, self._introduction.settings.register_broker_timeout_mills) / 1000
        if self._connection is None:
            self._connection = await connect(self._address, seconds, lost=self._lost, tls=self._tls)
        fields, body = self._introduction.request()
        answer = await self._connection.invoke(
            RequestCode.REGISTER_BROKER, fields, body, seconds=seconds
        )
        if answer.code != ResponseCode.SUCCESS:
            raise PenstockError(f"it answered {answer.code}: {answer.remark}")
        if not self._is_known or self._failures:
            logger.info("name server %s: registered", self._address)
        self._is_known = True
        self._failures = 0
        self.ordered = _ordered_topics(answer)
        master = answer.optional("haServerAddr")
        if master is not None:
            self._told_master(master)
        self._answered()

    def _failed(self, error: Exception) -> None:
        if not self._failures:
            logger.error(
                "name server %s: not registered - %s; trying again",
                self._address,
                error,
                exc_info=not isinstance(error, PenstockError),
            )
        self._failures += 1
        self._drop()

    def _lost(self) -> None:
        if self._connection is not None:
            self._connection = None
            logger.warning("name server %s: the connection ended", self._address)
            # As a failure, so that the wait grows: a name server that is gone stays so for a while.
            self._failures = 1
            self._asked.set()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Unregister, so that clients learn at once that the broker is gone."""
        self._task.cancel()
        await asyncio.wait([self._task])
        for future in self._waiting:
            future.cancel()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.invoke(
                RequestCode.UNREGISTER_BROKER, self._introduction.who(), seconds=FAREWELL_S
            )
        except PenstockError as error:
            logger.warning("name server %s: not unregistered - %s", self._address, error)
        connection.close()


def _ordered_topics(answer: Command) -> set[str] | None:
    """The topics of ORDER_TOPIC_CONFIG; None when the answer has no such table."""
    if not answer.body:
        return None
    try:
        value = fastjson.loads(answer.body)
    except BodyError:
        return None
    table = value.get("table") if isinstance(value, dict) else None
    return {str(name) for name in table} if isinstance(table, dict) else None
