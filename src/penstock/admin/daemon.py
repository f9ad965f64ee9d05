"""nsqadmin as a whole: what it asks, what it answers, what it tells others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.admin.actions_api import ActionsApi
from penstock.admin.admin_options import AdminOptions, checked
from penstock.admin.config_api import ConfigApi
from penstock.admin.damage_api import DamageApi
from penstock.admin.graphite import GraphiteApi
from penstock.admin.groups_api import GroupsApi
from penstock.admin.limits_api import LimitsApi
from penstock.admin.messages.messages_api import MessagesApi
from penstock.admin.metrics import AdminVitals
from penstock.admin.nodes.copies_api import CopiesApi
from penstock.admin.nodes.machines import MachinesApi
from penstock.admin.notifications import Notifier
from penstock.admin.pages import Pages
from penstock.admin.permissions import Access
from penstock.admin.pipelines.pipelines_api import Pipelines
from penstock.admin.read_api import ReadApi
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Addresses, Cluster
from penstock.cluster.exchange import Timeouts
from penstock.cluster.http_client import HttpClient
from penstock.cluster.writes import Changes
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.settings.version import NSQ_VERSION, version_line
from penstock.core.units import SECOND
from penstock.net import tcp
from penstock.net.budget import Memory
from penstock.net.http.server.service import HttpServer, Request, Response
from penstock.net.http.server.v1_api import ApiError
from penstock.net.tls.renewal import Renewed
from penstock.net.tls.tls_layer import check_readable, renewed_client_context
from penstock.net.vitals.vitals import Vitals

if TYPE_CHECKING:
    from penstock.admin.history.poller import Poller
    from penstock.admin.history.prometheus import Prometheus
    from penstock.admin.rocketmq.servers import Servers
    from penstock.admin.rocketmq.watch import RocketWatch

logger = logging.getLogger("penstock.nsqadmin")


class Nsqadmin:
    """A running nsqadmin; ``start`` makes one, ``close`` ends it."""

    def __init__(self, options: AdminOptions, clock: Clock) -> None:
        """Inside a running loop. Raises ConfigError."""
        access = Access(options)
        graphite = GraphiteApi(options)
        timeouts = Timeouts(options.connect_s, options.request_s)
        self.http = HttpClient(timeouts, agent=f"nsqadmin/{NSQ_VERSION}", tls=client_tls(options))
        addresses = Addresses(options.lookupd_http_addresses, options.nsqd_http_addresses)
        self.cluster = Cluster(self.http, addresses, clock)
        self.notifier = Notifier(options.notification_http_endpoint, *timeouts, clock)
        self._own_vitals = AdminVitals(self.notifier, clock)
        self._options, self._clock = options, clock
        self._router = router = AdminRouter(options.base_path, access.guard)
        self._vitals = Vitals("nsqadmin", clock)
        self._vitals.checks.append(self._own_vitals.missing)
        self._vitals.sources.append(self._own_vitals.source)
        self._vitals.add_routes(router, metrics=options.metrics)
        ReadApi(self.cluster).add_routes(router)
        self._pipelines = Pipelines(self.cluster, options.watch_s)
        self._pipelines.add_routes(router)
        self._groups = GroupsApi(self.cluster, self._pipelines)
        self._groups.add_routes(router)
        DamageApi(self.cluster).add_routes(router)
        LimitsApi(self.cluster, access, self.notifier).add_routes(router)
        MachinesApi(self.cluster).add_routes(router)
        CopiesApi(self.cluster, clock).add_routes(router)
        ActionsApi(Changes(self.cluster), access, self.notifier).add_routes(router)
        MessagesApi(self.cluster, access, self.notifier).add_routes(router)
        self._rocketmq_watch: RocketWatch | None = None
        self._rocketmq = self._open_rocketmq(access)  # joins its groups to the others
        ConfigApi(options, access, self.cluster).add_routes(router)
        graphite.add_routes(router)
        Pages(options, access).add_routes(router)
        self._http = HttpServer(router, log=logger, clock=clock, memory=Memory.of(options))
        self._listener: tcp.Listener

    @classmethod
    async def start(cls, options: AdminOptions, clock: Clock = SYSTEM_CLOCK) -> Nsqadmin:
        """Listen. Raises ConfigError and ListenError, with nothing left open."""
        admin = cls(checked(options), clock)
        logger.info(version_line("nsqadmin"))
        try:
            admin._listener = await tcp.listen(admin._http, options.http_address, "HTTP", logger)
        except tcp.ListenError:
            await admin._end()
            raise
        admin._watch()
        if admin._rocketmq_watch is not None:
            admin._rocketmq_watch.start()
        admin._vitals.start()
        return admin

    @property
    def http_port(self) -> int:
        return self._listener.port

    async def close(self) -> None:
        """Stop listening, end all connections, and send what is to be told if that is quick."""
        self._vitals.close()
        await self._listener.close()
        self._http.close_connections()
        await self._end()
        logger.info("bye")

    def _open_rocketmq(self, access: Access) -> Servers | None:
        """Questions to RocketMQ's servers and their routes; loaded only where there are some."""
        options = self._options
        if not options.rocketmq_namesrv_addresses:
            return None
        from penstock.admin.rocketmq.changes.changes_api import RocketmqChangesApi
        from penstock.admin.rocketmq.other_brokers import OtherBrokers
        from penstock.admin.rocketmq.rocketmq_api import RocketmqApi
        from penstock.admin.rocketmq.servers import Servers

        servers = Servers(
            options.rocketmq_namesrv_addresses,
            options.rocketmq_client_opts,
            options.connect_s,
            options.request_s,
            self._clock,
        )
        self._groups.beside = OtherBrokers(servers, self.cluster)
        interval = options.history_interval / SECOND
        api = RocketmqApi(servers, access, self._groups.beside, interval)
        api.add_routes(self._router)
        self._rocketmq_watch = api.watch
        RocketmqChangesApi(servers, access, self.notifier).add_routes(self._router)
        return servers

    def _watch(self) -> None:
        """Start the history; it takes longest to load, so it comes last."""
        interval = self._options.watch_s
        if not interval:
            for path in ("/api/history", "/api/events", "/api/lost"):
                self._router.v1("GET", path, _no_history)
            return
        from penstock.admin.history.history import History
        from penstock.admin.history.history_api import HistoryApi
        from penstock.admin.history.history_file import HistoryFile
        from penstock.admin.history.lost_api import LostApi
        from penstock.admin.history.poller import Poller
        from penstock.admin.history.server_sent import Events

        path = self._options.history_path
        history = History(interval, HistoryFile(path) if path else None)
        history.restore(self._clock.wall_ns() / SECOND)
        events = Events(history)
        HistoryApi(history, events, self._clock, self._prometheus()).add_routes(self._router)
        LostApi(history.lost).add_routes(self._router)
        self._groups.growth = events.growth
        self._own_vitals.poller = poller = Poller(
            self.cluster, history, interval, self._clock, events.refreshed, self._pipelines.look
        )
        poller.start()

    def _prometheus(self) -> Prometheus | None:
        from penstock.admin.history import prometheus

        url = self._options.prometheus_url
        return prometheus.Prometheus(self.http, url) if url else None

    @property
    def poller(self) -> Poller | None:
        """The poller of the nodes for the history; None without one."""
        return self._own_vitals.poller

    async def _end(self) -> None:
        # The poller first: it asks through what is closed below.
        if self.poller is not None:
            await self.poller.close()
        if self._rocketmq_watch is not None:
            await self._rocketmq_watch.close()
        if self._rocketmq is not None:
            await self._rocketmq.close()
        await self.notifier.close()
        await self.http.close()


def _no_history(request: Request) -> Response:
    raise ApiError(404, "HISTORY_OFF")


def client_tls(options: AdminOptions) -> Renewed:
    """The TLS for nodes that want HTTPS, of the --http-client-tls options.

    Raises ConfigError with nsqadmin's texts.
    """
    cert, key = options.http_client_tls_cert, options.http_client_tls_key
    ca = options.http_client_tls_root_ca_file
    for file in filter(None, (cert, key)):
        check_readable(file, f"failed to LoadX509KeyPair {cert}, {key}")
    if ca:
        check_readable(ca, f"failed to read TLS root CA file {ca}")
    return renewed_client_context(
        ca,
        cert_file=cert,
        key_file=key,
        verify=not options.http_client_tls_insecure_skip_verify,
    )
