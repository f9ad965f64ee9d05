"""nsqlookupd, one or several nsqds and nsqadmin as children of ``up`` and ``demo``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.live.children import Child, ServiceError, start, wait_for_ping
from penstock.cli.live.display import Board, Service
from penstock.cli.live.local_nodes import HOST, Ports, nodes_of
from penstock.cluster.blocking import Daemon
from penstock.cluster.upstream_errors import UpstreamError
from penstock.log_api.log_client import LogClient
from penstock.nsq.client.errors import LookupFailed
from penstock.nsq.client.lookup import lookup
from penstock.spark.pipelines.own import group_name

_POLL_S = 0.02
_TIMEOUT_S = 10.0
_REGISTER_TRIES = 500


class Daemons:
    """The daemons, started in order and shown on a board."""

    def __init__(
        self, folder: Path, ports: Ports, board: Board, nsqd_flags: Sequence[str] = ()
    ) -> None:
        self.nodes = nodes_of(folder, ports)
        self.lookupd_http = f"{HOST}:{ports.lookupd_http}"
        self._admin_http = f"{HOST}:{ports.admin_http}"
        self.admin = f"http://{self._admin_http}/"
        self._lookupd_tcp = f"{HOST}:{ports.lookupd_tcp}"
        self._folder = folder
        self._board = board
        self._nsqd_flags = nsqd_flags
        for node in self.nodes:
            node.data.mkdir(parents=True, exist_ok=True)
        board.services += [
            Service("nsqlookupd", detail=f"tcp {ports.lookupd_tcp}  http {ports.lookupd_http}"),
            *(
                Service(node.name, detail=f"tcp {node.ports.tcp}  http {node.ports.http}")
                for node in self.nodes
            ),
            Service("nsqadmin", detail=self.admin),
        ]

    @property
    def nsqd_tcp(self) -> str:
        """The address at which the first nsqd, often the only one, takes messages."""
        return self.nodes[0].tcp

    @property
    def nsqd_http(self) -> str:
        return self.nodes[0].http

    def start(self, children: list[Child]) -> None:
        """Start them, adding them to ``children`` at once, and return when all answer."""
        lookupd = self._begin(
            children,
            "nsqlookupd",
            [
                f"--tcp-address={self._lookupd_tcp}",
                f"--http-address={self.lookupd_http}",
                f"--broadcast-address={HOST}",
            ],
        )
        registered = [f"--lookupd-tcp-address={self._lookupd_tcp}", *self._nsqd_flags]
        nsqds = [
            self._begin(children, node.name, [*node.flags, *registered], program="nsqd")
            for node in self.nodes
        ]
        admin = self._begin(
            children,
            "nsqadmin",
            [
                f"--http-address={self._admin_http}",
                f"--lookupd-http-address={self.lookupd_http}",
                "--history-interval=5s",
                f"--history-path={self._folder / 'nsqadmin.history'}",
            ],
        )
        addresses = [self.lookupd_http, *(node.http for node in self.nodes), self._admin_http]
        for child, address in zip([lookupd, *nsqds, admin], addresses, strict=True):
            wait_for_ping(child, address)
            self._board.service(child.name).state = "ready"

    def create_topic(self, topic: str) -> None:
        """Create a topic and return when nsqlookupd knows its node."""
        try:
            with Daemon(self.nsqd_http, _TIMEOUT_S) as nsqd:
                nsqd.post("/topic/create", topic=topic)
        except UpstreamError as error:
            raise ServiceError(f"nsqd did not create topic {topic}: {error}") from error
        for _ in range(_REGISTER_TRIES):
            if self._registered(topic):
                return
            time.sleep(_POLL_S)
        raise ServiceError(f"nsqd did not register topic {topic} with nsqlookupd")

    def hold_for_archive(self, topic: str) -> None:
        """Have nsqd keep the topic for the archive, which takes ten seconds to come itself."""
        with LogClient(self.nsqd_http) as log:
            log.commit(topic, group_name(topic, str(self._folder / "checkpoint"), "archive"), {})

    def _begin(
        self, children: list[Child], name: str, flags: list[str], program: str = ""
    ) -> Child:
        """Start a program, which is called as its service is unless another one is named."""
        self._board.service(name).state = "starting"
        module = f"penstock.cli.{program or name}"
        child = start(name, module, [*flags, "--metrics"], self._folder / f"{name}.log")
        children.append(child)
        return child

    def _registered(self, topic: str) -> bool:
        try:
            return bool(lookup([self.lookupd_http], topic, _TIMEOUT_S))
        except LookupFailed as error:
            raise ServiceError(f"nsqlookupd does not answer: {error}") from error
