"""The nodes a command works on: given ones, or those that nsqlookupds name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.cluster.access import Access
from penstock.cluster.asker import Asker
from penstock.cluster.errors import PLAIN, NoAnswerError, RefusedError
from penstock.cluster.exchange import Endpoint, Timeouts, of_lookupd, target
from penstock.cluster.fanout import try_all
from penstock.cluster.producers import Info, ToldBareNodes
from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port

DEFAULT_NODE: Final = "127.0.0.1:4151"
TIMEOUT_S: Final = 10.0


class Where(NamedTuple):
    """Addresses as they were given, and how to ask there."""

    nsqds: Sequence[str] = ()
    lookupds: Sequence[str] = ()
    access: Access = Access()

    def asker(self, seconds: float = TIMEOUT_S) -> Asker:
        """The client to ask with; to be made inside the loop, and closed. Raises ConfigError."""
        timeouts = Timeouts(seconds, seconds)
        return Asker(timeouts, agent="penstock", access=self.access, manner=PLAIN)


class Place(NamedTuple):
    """The addresses of a node; ``tcp`` is empty while nobody has asked it."""

    http: str
    tcp: str = ""

    @property
    def shown(self) -> str:
        """The address for people and files, without the password that it may have."""
        return without_secrets(self.http)


async def places(asker: Asker, where: Where, topic: str = "") -> list[Place]:
    """The nodes given, and those that the nsqlookupds name, for a topic or all of them.

    Without either the nsqd of this machine. Raises NoAnswerError when no nsqlookupd answers.
    """
    if not where.nsqds and not where.lookupds:
        return [Place(DEFAULT_NODE)]
    found = {address: Place(address) for address in where.nsqds}
    for told in await _named(asker, where.lookupds, topic):
        for each in told.producers or ():
            node = each.producer()
            found.setdefault(node.http_address, Place(node.http_address, node.tcp_address))
    return list(found.values())


async def _named(asker: Asker, lookupds: Sequence[str], topic: str) -> list[ToldBareNodes]:
    """The nodes that each nsqlookupd names; one that does not answer is not missed."""
    asked = target("/lookup", topic=topic) if topic else "/nodes"

    async def ask(lookupd: str) -> ToldBareNodes:
        try:
            return await asker.get(of_lookupd(lookupd), asked, ToldBareNodes)
        except RefusedError as error:
            if error.code != "TOPIC_NOT_FOUND":
                raise
            return ToldBareNodes()

    found = await try_all(lookupds, ask)
    if found.errors and not found.answers:
        raise NoAnswerError("no nsqlookupd answers: " + "; ".join(found.errors))
    return [told for _, told in found.answers]


async def tcp_address(asker: Asker, place: Place) -> str:
    """The address to publish to: the port that /info names, on the host that was asked.

    Raises UpstreamError.
    """
    if place.tcp:
        return place.tcp
    info = await asker.get(place.http, "/info", Info)
    host, _ = Endpoint.of(place.http).host_and_port()
    return join_host_port(host, info.tcp_port)
