"""nsqadmin's /config/:opt, for those whom ``--allow-config-from-cidr`` allows (NSQ spec 5.2)."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.admin_options import AdminOptions
from penstock.admin.permissions import Access
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.net.http.server.service import Request, Response
from penstock.nsq.config_page import ConfigPage

BODY_MAX: Final = 1 << 20
_HIDDEN: Final = frozenset(("version", "config", "verbose", "rocketmq_client_opts"))


class ConfigApi(ConfigPage):
    """The /config endpoints of an nsqadmin."""

    def __init__(self, options: AdminOptions, access: Access, cluster: Cluster) -> None:
        super().__init__(options, "nsqlookupd_http_addresses", _HIDDEN)
        self._access = access
        self._cluster = cluster

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/config/:opt", self.get)
        router.v1("PUT", "/config/:opt", self.put, max_body=BODY_MAX, too_big="INVALID_VALUE")

    def get(self, request: Request) -> Response:
        # By network only, for GET as well: administrators are not asked for here (NSQ spec 5.2).
        self._access.check_config(request)
        return super().get(request)

    def put(self, request: Request) -> Response:
        self._access.check_config(request)
        return super().put(request)

    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        self._options.lookupd_http_addresses = addresses
        self._cluster.addresses = self._cluster.addresses._replace(lookupds=addresses)

    def resolved(self, name: str, value: Any) -> Any:
        return value
