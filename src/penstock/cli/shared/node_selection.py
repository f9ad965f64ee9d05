"""The nodes a command works on: given ones, or those that nsqlookupds name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.cluster.access import Access
from penstock.cluster.exchange import Endpoint, Timeouts, of_lookupd, target
from penstock.cluster.fanout import try_all
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import AdvertisedNodes, NodeInfo
from penstock.cluster.upstream_errors import PLAIN, NoAnswerError, RefusedError
from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port

DEFAULT_NODE: Final = "127.0.0.1:4151"
TIMEOUT_S: Final = 10.0


class NodeSelection(NamedTuple):
    """Addresses as they were given, and how to ask there."""

    nsqds: Sequence[str] = ()
    lookupds: Sequence[str] = ()
    access: Access = Access()

    def http(self, seconds: float = TIMEOUT_S) -> HttpClient:
        """The client to ask with; to be made inside the loop, and closed. Raises ConfigError."""
        timeouts = Timeouts(seconds, seconds)
        return HttpClient(timeouts, agent="penstock", access=self.access, wording=PLAIN)


class NodeAddress(NamedTuple):
    """The addresses of a node; ``tcp`` is empty while nobody has asked it."""

    http: str
    tcp: str = ""

    @property
    def shown(self) -> str:
        """The address for people and files, without the password that it may have."""
        return without_secrets(self.http)


async def places(http: HttpClient, where: NodeSelection, topic: str = "") -> list[NodeAddress]:
    """The nodes given, and those that the nsqlookupds name, for a topic or all of them.

    Without either the nsqd of this machine. Raises NoAnswerError when no nsqlookupd answers.
    """
    if not where.nsqds and not where.lookupds:
        return [NodeAddress(DEFAULT_NODE)]
    found = {address: NodeAddress(address) for address in where.nsqds}
    for told in await _named(http, where.lookupds, topic):
        for each in told.producers or ():
            node = each.producer()
            found.setdefault(node.http_address, NodeAddress(node.http_address, node.tcp_address))
    return list(found.values())


async def _named(http: HttpClient, lookupds: Sequence[str], topic: str) -> list[AdvertisedNodes]:
    """The nodes that each nsqlookupd names; one that does not answer is not missed."""
    asked = target("/lookup", topic=topic) if topic else "/nodes"

    async def ask(lookupd: str) -> AdvertisedNodes:
        try:
            return await http.get(of_lookupd(lookupd), asked, AdvertisedNodes)
        except RefusedError as error:
            # A topic that this nsqlookupd does not know has no nodes here, which is not a failure.
            if error.code != "TOPIC_NOT_FOUND":
                raise
            return AdvertisedNodes()

    found = await try_all(lookupds, ask)
    if found.errors and not found.answers:
        raise NoAnswerError("no nsqlookupd answers: " + "; ".join(found.errors))
    return [told for _, told in found.answers]


async def tcp_address(http: HttpClient, place: NodeAddress) -> str:
    """The address to publish to: the port that /info names, on the host that was asked.

    Raises UpstreamError.
    """
    if place.tcp:
        return place.tcp
    info = await http.get(place.http, "/info", NodeInfo)
    host, _ = Endpoint.of(place.http).host_and_port()
    return join_host_port(host, info.tcp_port)
