"""The routes of the daemons, as each gives them to its router when it is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from penstock.admin.admin_options import AdminOptions
from penstock.admin.daemon import Nsqadmin
from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.http.server.route import Handler
from penstock.net.http.server.router import Router
from penstock.net.vitals.vitals import Vitals
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.daemon import Nsqlookupd
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from tests import nsqds

Routes = dict[str, Handler]
ANY_PORT: Final = "127.0.0.1:0"
NOWHERE: Final = "127.0.0.1:1"
_PAGES: Final = re.compile(r"GET /(?!api/|config/|live|ping|ready|metrics|render)")
"""nsqadmin's pages for people, and their files."""


async def of_nsqd() -> Routes:
    """nsqd's, without those of RocketMQ's port, which is no HTTP."""
    with TemporaryDirectory() as folder, _recorded() as routes:
        options = NsqdOptions(data_path=folder, tcp_address=ANY_PORT, http_address=ANY_PORT,
                              https_address="", metrics=True)  # fmt: skip
        await nsqds.stop(await nsqds.start(options))
    return routes


def of_nsqlookupd() -> Routes:
    """nsqlookupd's."""
    with _recorded() as routes:
        Nsqlookupd(LookupdOptions(metrics=True))
    return routes


async def of_nsqadmin() -> Routes:
    """nsqadmin's API, with what it has for RocketMQ and graphite."""
    with _recorded() as routes:
        options = AdminOptions(
            http_address=ANY_PORT, metrics=True, nsqd_http_addresses=(NOWHERE,),
            rocketmq_namesrv_addresses=(NOWHERE,), graphite_url=f"http://{NOWHERE}",
            proxy_graphite=True,
        )  # fmt: skip
        await (await Nsqadmin.start(options)).close()
    return {each: handler for each, handler in routes.items() if not _PAGES.match(each)}


def of_monitoring_port() -> Routes:
    """Those of mqbroker and mqnamesrv at ``monitoringAddress``."""
    with _recorded() as routes:
        Vitals("mqbroker", SYSTEM_CLOCK).add_routes(Router(), metrics=True)
    return routes


@contextmanager
def _recorded() -> Iterator[Routes]:
    """Every method and path that is routed meanwhile, in this order, with its handler."""
    routes: Routes = {}
    add = Router.add

    def note(
        self: Router, method: str, path: str, handler: Handler, *rest: Any, **details: Any
    ) -> None:
        routes[f"{method} {path}"] = handler
        add(self, method, path, handler, *rest, **details)

    with patch.object(Router, "add", note):
        yield routes
