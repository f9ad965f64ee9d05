"""Fixtures of tests that stay below `tests/unit`, for these as well, and a server of one thread."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from tests.unit.rocketmq.conftest import connect, loop_thread, name_server, settings
from tools.harness.rocketmq.servers import SECONDS

__all__ = ["connect", "loop_thread", "name_server", "settings"]


@contextmanager
def serving(serve: Callable[[socket.socket], object], times: int = 1) -> Iterator[str]:
    """The address of a server that does this with each connection that comes, of so many."""

    def accept() -> None:
        for _ in range(times):
            connection, _ = server.accept()
            with connection:
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(SECONDS)
