"""The times to ask nsqlookupd for a topic's nodes, and what the answers come to (NSQ spec 7.4).

The first time at once; then, after a delay by chance that keeps consumers started together apart,
every ``lookupd_poll_interval``. When a connection was lost they are asked at once, and ever less
often after that, as the node may take a while to be back. All nsqlookupds are asked together and
each answer counts when it comes, so one that is dead or hangs holds up nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from penstock.cluster.exchange import ACCEPT
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND
from penstock.nsq.client.config import HOUR, Config
from penstock.nsq.client.lookup import lookup_url


class Discovery:
    """The rounds of questions of one consumer; times in nanoseconds of the clock.

    Raises ValueError for an address without a port.
    """

    def __init__(
        self, lookupds: Sequence[str], topic: str, config: Config, clock: Clock, chance: Chance
    ) -> None:
        self.urls = [checked_url(address, topic) for address in lookupds]
        self.headers = {"Accept": ACCEPT}
        # As in go-nsq True sends the secret, whatever the name says (NSQ spec 7.1).
        if config.auth_secret and config.skip_lookupd_authorization:
            self.headers["Authorization"] = f"Bearer {config.auth_secret}"
        given = config.lookupd_poll_timeout
        self.timeout_s = given if given > 0 else HOUR
        """Seconds for a whole request; 0 means that nobody wants a bound, as for go-nsq."""
        self.due: int | None = clock.monotonic_ns() if self.urls else None
        """The time to ask next; None without nsqlookupds."""
        self._clock = clock
        self._chance = chance
        self._interval = int(config.lookupd_poll_interval * SECOND)
        self._jitter = config.lookupd_poll_jitter
        self._shortest = min(SECOND, self._interval)
        self._pause = self._interval
        self._retry = self._shortest
        self._asked_at: int | None = None
        self._asking: set[str] = set()
        self._answers = 0

    def begin(self) -> list[str]:
        """The URLs to ask now, if a round is due. One that has not answered yet is not asked."""
        now = self._clock.monotonic_ns()
        if self.due is None or now < self.due:
            return []
        first = self._asked_at is None
        late = int(self._chance.fraction() * self._jitter * self._interval) if first else 0
        self.due = now + self._pause + late
        self._pause = min(2 * self._pause, self._interval)
        self._asked_at = now
        asked = [url for url in self.urls if url not in self._asking]
        self._asking.update(asked)
        self._answers = 0
        return asked

    def answered(self, url: str) -> None:
        """An nsqlookupd has answered, with any nodes or none."""
        self._asking.discard(url)
        self._answers += 1
        self._retry = self._shortest

    def failed(self, url: str) -> None:
        """An nsqlookupd gave no answer. When none did, they are asked again before long."""
        self._asking.discard(url)
        if not self._asking and not self._answers:
            self._ask_in(self._retry)
            self._retry = min(2 * self._retry, self._interval)

    def soon(self) -> None:
        """Something has changed: ask at once, but not all the time, and again before long."""
        if self._asked_at is not None:
            self._pause = self._shortest
            waited = self._clock.monotonic_ns() - self._asked_at
            self._ask_in(max(0, self._shortest - waited))

    def _ask_in(self, delay: int) -> None:
        if self.due is not None:
            self.due = min(self.due, self._clock.monotonic_ns() + delay)


def checked_url(address: str, topic: str) -> str:
    """The URL to ask; ValueError when the address has no port."""
    url = lookup_url(address, topic)
    try:
        port = urlsplit(url).port
    except ValueError as error:
        raise ValueError(f"{without_secrets(address)}: {error}") from None
    if port is None:
        raise ValueError(f"{without_secrets(address)}: missing port")
    return url
