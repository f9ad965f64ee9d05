"""A broker whose delayed messages a test delivers step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import Lives


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


class Scene(Lives):
    """What waits there is delivered when a test says so; messages for T are for its queue 1."""

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
        return self.bodies(1)

    def crash(self, *saved: str) -> None:
        """Begin a new life after these tables were saved."""
        for name in saved:
            self.services.files.save(name)
        self.start()

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
def scene(tmp_path: Path, clock: FakeClock) -> Iterator[Scene]:
    scene = Scene(tmp_path, clock)
    scene.start()
    yield scene
    scene.stop()


@pytest.fixture
def services(scene: Scene) -> Services:
    """Those of its first life."""
    return scene.services
