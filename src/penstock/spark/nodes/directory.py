"""The directory of nodes: which addresses to ask for which topics, looked up every few seconds.

A directory that falls silent does not end a query, whose nodes may answer all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.core.names import is_ephemeral
from penstock.log_api.errors import LogError, NoLog
from penstock.nsq.client.lookup import lookup, topics_of_nodes
from penstock.spark.access import client, no_log, persist, secured, why
from penstock.spark.errors import SourceError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

LOOKUP_EVERY_NS = 5_000_000_000
_BRIEFLY_S: Final = 2.0
_Answer = TypeVar("_Answer")


class LastAnswer(Generic[_Answer]):
    """The last answer of a directory, which serves on while there is no other."""

    def __init__(self, once: WarnOnce) -> None:
        self._once = once
        self._answers: list[_Answer] = []

    def renew(self, ask: Callable[[float], _Answer], failure: str, timeout_s: float) -> _Answer:
        """The answer now. ``ask`` takes the time-out of a request in seconds, and may raise.

        The first is asked for again and again for ``timeout_s``; raises SourceError, which begins
        with ``failure``. A later one is asked for once, and briefly.
        """
        if not self._answers:
            self._answers = [persist(lambda: ask(timeout_s), failure, timeout_s)]
            return self._answers[0]
        try:
            briefly_s = min(timeout_s, _BRIEFLY_S)
            # Once: the nodes that are known serve on, so a batch does not wait for the directory.
            self._answers = [persist(lambda: ask(briefly_s), failure, 0)]
        except PenstockError as error:
            reason = f"{failure}: {why(error)}" if error.__cause__ else str(error)
            self._once.warn(f"{reason}. It goes on with the nodes that were known before")
        return self._answers[0]


class Directory:
    """Addresses of nodes (``host:port`` of plain HTTP, as nsqlookupd has them) and their topics."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._topics_at: dict[str, list[str]] = {}
        self._looked_up_ns = 0
        self._once = WarnOnce()
        self._last: dict[str, LastAnswer[dict[str, set[str]]]] = {}

    def topics_at(self) -> Mapping[str, list[str]]:
        """The topics to ask for at each address. Raises SourceError when nobody answers, and nobody
        has answered before.
        """
        since_ns = SYSTEM_CLOCK.monotonic_ns() - self._looked_up_ns
        if not self._topics_at or since_ns > LOOKUP_EVERY_NS:
            look = self._find_topics if self._settings.finds_topics else self._look
            self._topics_at = look()
            self._looked_up_ns = SYSTEM_CLOCK.monotonic_ns()
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

        def ask(timeout_s: float) -> dict[str, set[str]]:
            nodes = lookup(
                settings.lookupd, topic, timeout_s, headers=access.headers, tls=access.context()
            )
            return {node.http_address: {topic} for node in nodes}

        return list(self._asked(ask, f"no nsqlookupd answers for topic {topic}"))

    def _lookup_all(self) -> dict[str, set[str]]:
        settings, access = self._settings, self._settings.access

        def ask(timeout_s: float) -> dict[str, set[str]]:
            found = topics_of_nodes(
                settings.lookupd, timeout_s, headers=access.headers, tls=access.context()
            )
            return {node.http_address: topics for node, topics in found.items()}

        return self._asked(ask, "no nsqlookupd answers")

    def _asked(
        self, ask: Callable[[float], dict[str, set[str]]], failure: str
    ) -> dict[str, set[str]]:
        last = self._last.setdefault(failure, LastAnswer(self._once))
        return last.renew(ask, failure, self._settings.timeout_s)
