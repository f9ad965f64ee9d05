"""A name server and clients of it, in a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tools.harness.rocketmq.raw_client import RawClient

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, for servers that blocking clients talk to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def close(self) -> None:
        self.run(_settle())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


async def _settle() -> None:
    """What still runs ends, and connections that were closed are, before their loop is."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def settings(tmp_path: Path) -> NamesrvSettings:
    settings = NamesrvSettings()
    settings.listen_port = 0
    settings.bind_address = "127.0.0.1"
    settings.kv_config_path = str(tmp_path / "namesrv" / "kvConfig.json")
    settings.config_store_path = str(tmp_path / "namesrv" / "namesrv.properties")
    settings.scan_not_active_broker_interval = 100
    return settings


@pytest.fixture
def name_server(loop_thread: LoopThread, settings: NamesrvSettings) -> Iterator[NameServer]:
    server = loop_thread.run(NameServer.start(settings))
    yield server
    loop_thread.run(server.close())


@pytest.fixture
def connect(name_server: NameServer) -> Iterator[Callable[[], RawClient]]:
    clients = []

    def connected() -> RawClient:
        clients.append(RawClient(name_server.port))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
