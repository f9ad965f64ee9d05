"""The name server's port."""

from __future__ import annotations

import pytest

from penstock.core.errors import PenstockError
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from tests.unit.rocketmq.conftest import LoopThread
from tests.unit.rocketmq.raw_client import RawClient


def test_a_taken_port_is_one_line(
    name_server: NameServer, settings: NamesrvSettings, loop_thread: LoopThread
) -> None:
    settings.listen_port = name_server.port
    with pytest.raises(PenstockError, match=r"cannot start: .*address already in use"):
        loop_thread.run(NameServer.start(settings))


def test_closing_ends_connections(loop_thread: LoopThread, settings: NamesrvSettings) -> None:
    server = loop_thread.run(NameServer.start(settings))
    client = RawClient(server.port)
    assert client.ask(319).code == 0
    loop_thread.run(server.close())
    assert client.is_closed()
    client.close()
