"""The name servers: which there are, and which of them is asked.

One that answers is asked again; when it does not, the next one is. They all know the same, or will
soon. The list may change while the client runs: by ``set``, or as the page at ``namesrv_url`` does.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.core.errors import ConfigError
from penstock.net.address import split_host_port
from penstock.rocketmq.client.errors import ClientError, NoNameServer, NotConnected
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.runtime import Runtime
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

FETCH_EVERY_S: Final = 120.0


def listed(text: str) -> list[str]:
    """The addresses in ``host:port;host:port``. Raises ConfigError."""
    found = [each.strip() for each in text.replace(",", ";").split(";") if each.strip()]
    for each in found:
        try:
            split_host_port(each)
        except ValueError as error:
            raise ConfigError(f"name server {each}: {error}") from None
    return list(dict.fromkeys(found))


class NameServers:
    """The name servers, asked one after the other until one answers."""

    def __init__(self, runtime: Runtime, addresses: str, url: str) -> None:
        self._runtime = runtime
        self._url = url
        self.addresses = listed(addresses)
        """The addresses known at present; the one that answered last comes first."""
        if not self.addresses and not url:
            raise ConfigError(
                "no name server address, please set it: namesrv_addr='host:9876', "
                "or NAMESRV_ADDR in the environment"
            )

    def set(self, addresses: str) -> None:
        """From now on these. Raises ConfigError."""
        found = listed(addresses)
        if found and set(found) != set(self.addresses):
            tell(
                logging.INFO,
                "name-servers",
                f"name server address changed, old: {self.addresses} new: {found}",
                found=found,
            )
            self.addresses = found

    async def watch(self) -> None:
        """Read the page that lists them, again and again."""
        while self._url:
            await self._runtime.sleep(FETCH_EVERY_S)
            await self._fetch()

    async def _fetch(self) -> None:
        try:
            self.set((await self._runtime.fetch(self._url)).decode("utf-8", "replace").strip())
        except (ClientError, ConfigError) as error:
            tell(
                logging.WARNING,
                "name-servers-failed",
                f"fetch name server address exception: {error}",
                url=self._url,
            )

    async def ask(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> Command:
        """The answer of the first that gives one. Raises NoNameServer."""
        if not self.addresses:
            await self._fetch()
        failures: list[str] = []
        for address in list(self.addresses):
            try:
                answer = await self._runtime.ask(address, code, fields, body)
            except NotConnected as error:
                failures.append(error.told)
                continue
            if address in self.addresses:
                # The one that answered comes first: one that is off costs its time-out only once.
                self.addresses.remove(address)
                self.addresses.insert(0, address)
            return answer
        told = "; ".join(failures) or f"none is listed at {self._url}"
        raise NoNameServer(
            f"connect to name servers failed: {told}",
            "see that one of them runs, and that its address is right (namesrv_addr or "
            "namesrv_url, mqadmin's -n)",
        )
