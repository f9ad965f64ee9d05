"""The way to ask brokers in RocketMQ's own protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.net.http.client.keep_alive import Tls
from penstock.rocketmq.blocking import Account, RemotingLink
from penstock.spark.access import Access, LogNode
from penstock.spark.rocketmq.broker_log import BrokerLog


@dataclass(frozen=True)
class BrokerAccess(Access):
    """Requests are signed where there is an account; ``group`` is told how far the reader is."""

    account: Account | None = field(default=None, repr=False)
    group: str = ""

    def open(self, address: str) -> LogNode:
        return BrokerLog(self.link(address), self.group)

    def link(self, address: str) -> RemotingLink:
        """A connection to a broker or a name server."""
        context = self.context()
        tls = None if context is None else Tls(context, self.server_name)
        return RemotingLink(address, self.timeout_s, tls=tls, account=self.account)
