"""The part of a hub that its tables of routes and name servers stand on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.network.timers import Timer
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

T = TypeVar("T")


class Runtime(Protocol):
    """Requests, jobs and time."""

    config: Config

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """The answer to a request, whatever its code. Raises NotConnected, TimedOut, Stopped."""

    def fetch(self, url: str) -> Promise[bytes]:
        """The page at a URL. It fails with ClientError."""

    def spawn(self, coroutine: Coroutine[Any, None, T], name: str) -> Job[T]:
        """Run a job of the core."""

    def later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call this after the seconds."""

    def sleep(self, seconds: float) -> Promise[None]:
        """A promise that is kept after the seconds."""
