"""A broker whose delayed messages a test delivers step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.conftest import Lives
from tests.unit.rocketmq.broker.filling import stored


def delayed(level: object, body: bytes = b"x", queue: int = 1, **more: str) -> Draft:
    """A message with a delay level."""
    text = properties.join({"KEYS": "k", "DELAY": str(level), **more})
    return Draft("T", queue, body, text, born_ms=5, flag=3, reconsume_times=2)


def after(ms: int, body: bytes = b"x", **more: str) -> Draft:
    """A message with a delay of its own."""
    return Draft("T", 1, body, properties.join({"KEYS": "k", "TIMER_DELAY_MS": str(ms), **more}))


def at(ms: int, body: bytes) -> Draft:
    """A message with an appointment."""
    return Draft("T", 1, body, properties.join({"TIMER_DELIVER_MS": str(ms)}))


class Scene:
    """A broker with a topic T, in one life after another."""

    def __init__(self, lives: Lives) -> None:
        self.lives, self.clock = lives, lives.clock
        self.services = lives.begin("T", "U")

    async def send(self, *drafts: Draft) -> list[Placed]:
        return [await self.services.publisher.publish_one(each) for each in drafts]

    async def settle(self) -> int:
        """Deliver all that is due; when the next one will be, in ms."""
        return min([await self.settle_timers(), await self.settle_levels()])

    async def settle_timers(self) -> int:
        while (due_ms := await self.services.timers.step()) <= self.services.now_ms:
            pass
        return due_ms

    async def settle_levels(self) -> int:
        while (due_ms := await self.services.schedule.step()) <= self.services.now_ms:
            pass
        return due_ms

    async def deliver(self, ns: int = 0) -> list[bytes]:
        """What is there when this time has passed, whatever the system's time is."""
        self.clock.advance(ns)
        for _ in range(5):
            await self.services.timers.step()
            await self.services.schedule.step()
        return self.bodies()

    def bodies(self, queue: int = 1) -> list[bytes]:
        return [message.body for message in stored(self.services, "T", queue)]

    def crash(self, *saved: str) -> None:
        """Begin a new life after these tables were saved."""
        for name in saved:
            self.services.files.save(name)
        self.services = self.lives.begin("T", "U")

    def set_time(self, by_ns: int) -> None:
        """Set the system's time on or back."""
        self.clock.set_wall(self.clock.wall_ns() + by_ns)

    @contextmanager
    def unreadable(self, method: str, is_lost: Callable[..., bool]) -> Iterator[None]:
        """The disk fails in what is read so by a method of the store."""
        read = getattr(self.services.store, method)

        def fails(*asked: Any) -> Any:
            if is_lost(*asked):
                raise StorageError("input/output error")
            return read(*asked)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.services.store, method, fails)
            yield


@pytest.fixture
def scene(lives: Lives) -> Scene:
    return Scene(lives)


@pytest.fixture
def services(scene: Scene) -> Services:
    """Those of its first life."""
    return scene.services
