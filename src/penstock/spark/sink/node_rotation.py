"""The nodes to write to, by turns; those that have just failed come last."""

from __future__ import annotations

from math import inf
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.log_api.write_client import WriteClient
from penstock.nsq.client.lookup import topics_of_nodes
from penstock.spark.access import Access, connect_as, persist, secured
from penstock.spark.errors import SinkError
from penstock.spark.nodes.directory import LastAnswer
from penstock.spark.sink.idle import Idle
from penstock.spark.sink.sink_settings import SinkSettings
from penstock.spark.warn_once import WarnOnce

_SILENT: Final = "no nsqlookupd answers"
_AVOID_NS: Final = 5 * SECOND
# Of this process: a Python worker of Spark serves many tasks, for some of which nsqlookupd may be
# silent.
_last: dict[tuple[str, ...], LastAnswer[list[str]]] = {}
_once = WarnOnce()


class NodeRotation:
    """The nodes of one task: those of the options, or all that nsqlookupd knows."""

    def __init__(self, settings: SinkSettings, turn: int) -> None:
        self._settings = settings
        self._turn = turn
        self._addresses = list(settings.nodes) or self._looked_up()
        self._failed_ns: dict[str, int] = {}

    def by_turns(self) -> list[str]:
        """All nodes, another one first with each call; where one has just failed, at the end."""
        self._turn += 1
        first = self._turn % len(self._addresses)
        turned = [*self._addresses[first:], *self._addresses[:first]]
        now = SYSTEM_CLOCK.monotonic_ns()
        return sorted(turned, key=lambda each: now < self._failed_ns.get(each, 0))

    def failed(self, address: str) -> None:
        """Avoid a node for some seconds."""
        self._failed_ns[address] = SYSTEM_CLOCK.monotonic_ns() + _AVOID_NS

    def look_again(self) -> None:
        """Ask nsqlookupd again, if it is the one to ask and answers."""
        if not self._settings.nodes:
            self._addresses = self._looked_up()

    def _looked_up(self) -> list[str]:
        """The nodes that nsqlookupd knows, or knew when it last answered. Raises PenstockError."""
        settings = self._settings
        last = _last.setdefault(settings.lookupd, LastAnswer(_once))
        return last.renew(
            lambda timeout_s: _found(settings, settings.access.hurried(timeout_s)),
            _SILENT,
            settings.timeout_s,
        )


def known_nodes(settings: SinkSettings, access: Access) -> list[str]:
    """The nodes of the options, or all that nsqlookupd knows now.

    Raises SinkError when there are none, SourceError when nsqlookupd does not answer.
    """
    if settings.nodes:
        return list(settings.nodes)
    return persist(lambda: _found(settings, access), _SILENT, access.timeout_s)


def _found(settings: SinkSettings, access: Access) -> list[str]:
    found = topics_of_nodes(
        settings.lookupd, access.timeout_s, headers=access.headers, tls=access.context()
    )
    if not found:
        raise SinkError(f"nsqlookupd {', '.join(settings.lookupd)} knows no nsqd to write to")
    return sorted(node.http_address for node in found)


class Connections(Idle[WriteClient]):
    """The connections of one task to nodes."""

    def __init__(self, access: Access, port_timeout_s: float = inf) -> None:
        """A silent node's HTTPS port is asked for ``port_timeout_s`` seconds at most; ``to`` raises
        SourceError for a node that does not tell it.
        """
        patience = access.hurried(port_timeout_s)
        super().__init__(
            lambda address: connect_as(WriteClient, secured(address, patience), access)
        )
