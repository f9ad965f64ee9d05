"""The administrator's client as sub-commands run it: on the blocking hub.

Addresses of brokers given on the command line need no name server; the name servers are asked only
by what needs them.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.client.admin import clients, topics
from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.client.network.name_servers import listed
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

T = TypeVar("T")
_NEVER_ASKED: Final = "127.0.0.1:9876"


class Admin(AdminClient):
    """One run of the tool."""

    timeout_s = 5.0
    long_timeout_s = 15.0

    def __init__(self, name_servers: str = "", config: Config | None = None) -> None:
        """Check the arguments. Raises ConfigError."""
        self._given = listed(name_servers or os.environ.get("NAMESRV_ADDR", ""))
        addresses = ";".join(self._given) or _NEVER_ASKED
        self.config = replace(config or Config(), namesrv_addr=addresses)
        self._blocking = BlockingHub(self.config, SYSTEM_CLOCK, None)
        super().__init__(self._blocking)

    def close(self) -> None:
        """End the connections."""
        self._blocking.close()

    def do(self, work: Coroutine[Any, None, T]) -> T:
        """The result of a sub-command, waited for."""
        return self._blocking.run(work)

    @property
    def name_servers(self) -> list[str]:
        """The name servers in the order given. Raises CommandFailed where there are none."""
        if not self._given:
            raise CommandFailed(
                "no name server address: give it with -n host:9876, or set NAMESRV_ADDR"
            )
        return list(self._given)

    # --- what sub-commands choose for the user ----------------------------------------------------

    async def groups_of(self, topic: str) -> list[str]:
        """The groups that consume a topic, as the first of its brokers knows them."""
        for address in (await self.route(topic)).addresses[:1]:
            return await topics.groups_of(self, address, topic)
        return []

    async def connections(self, group: str, address: str = "") -> dict[str, Any]:
        """A group's consumers and subscriptions; of one of its brokers where none is given."""
        found = await clients.consumers(self, address or await self._broker_of(group), group)
        if not found.get("connectionSet"):
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE, "Not found the consumer group connection"
            )
        return found

    async def running_info(
        self, group: str, member: str, *, jstack: bool = False
    ) -> dict[str, Any]:
        """A consumer's own account of itself, asked for through the first broker of its group."""
        address = await self._broker_of(group)
        return await clients.running_info(self, address, group, member, jstack=jstack)

    async def _broker_of(self, group: str) -> str:
        return (await self.route(RETRY + group)).addresses[0]

    async def ask_name_server(
        self, code: RequestCode, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        assert self.name_servers
        return await super().ask_name_server(code, fields, body)
