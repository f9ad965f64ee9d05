"""The directory of nodes: which addresses to ask for which topics, looked up every few seconds."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.names import is_ephemeral
from penstock.nsq.client.log import LogError, NoLog
from penstock.nsq.client.lookup import lookup, topics_of_nodes
from penstock.spark.errors import SourceError
from penstock.spark.nodes.access import client, no_log, persist, secured
from penstock.spark.nodes.at_once import at_once
from penstock.spark.settings import Settings

LOOKUP_EVERY_NS = 5_000_000_000


class Directory:
    """Addresses of nodes (``host:port`` of plain HTTP, as nsqlookupd has them) and their topics."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topics_at: dict[str, list[str]] = {}
        self._looked_up_ns = 0

    def topics_at(self) -> Mapping[str, list[str]]:
        """The topics to ask for at each address. Raises SourceError when nobody answers."""
        now = SYSTEM_CLOCK.monotonic_ns()
        if not self._topics_at or now - self._looked_up_ns > LOOKUP_EVERY_NS:
            look = self._find_topics if self._settings.finds_topics else self._look
            self._topics_at = look()
            self._looked_up_ns = now
        return self._topics_at

    def _look(self) -> dict[str, list[str]]:
        topics = self._settings.topics
        if self._settings.nodes:
            return {address: list(topics) for address in self._settings.nodes}
        found: dict[str, list[str]] = {}
        for topic, addresses in at_once(self._lookup, topics).items():
            for address in addresses:
                found.setdefault(address, []).append(topic)
        return found

    def _find_topics(self) -> dict[str, list[str]]:
        """The topics that are wanted, of those that are kept on disk."""
        if self._settings.nodes:
            found = {each: set(topics) for each, topics in self._stats().items()}
        else:
            found = self._lookup_all()
        reads = self._settings.reads
        return {
            address: sorted(each for each in topics if not is_ephemeral(each) and reads(each))
            for address, topics in found.items()
        }

    def _stats(self) -> dict[str, list[str]]:
        access = self._settings.access

        def ask(address: str) -> list[str]:
            try:
                return persist(
                    lambda: client(secured(address, access), access).topics(),
                    f"{address} cannot be asked for its topics",
                    access.timeout_s,
                )
            except NoLog as error:
                raise SourceError(no_log(error)) from None
            except LogError as error:
                raise SourceError(f"node {error}") from None

        return at_once(ask, self._settings.nodes)

    def _lookup(self, topic: str) -> list[str]:
        """The nodes that have a topic; one nsqlookupd's answer is enough."""
        settings, access = self._settings, self._settings.access
        nodes = persist(
            lambda: lookup(
                settings.lookupd,
                topic,
                access.timeout_s,
                headers=access.headers,
                tls=access.context(),
            ),
            f"no nsqlookupd answers for topic {topic}",
            access.timeout_s,
        )
        return [node.http_address for node in nodes]

    def _lookup_all(self) -> dict[str, set[str]]:
        settings, access = self._settings, self._settings.access
        found = persist(
            lambda: topics_of_nodes(
                settings.lookupd, access.timeout_s, headers=access.headers, tls=access.context()
            ),
            "no nsqlookupd answers",
            access.timeout_s,
        )
        return {node.http_address: topics for node, topics in found.items()}
