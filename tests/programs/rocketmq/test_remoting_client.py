"""Connections that we open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from penstock.core.errors import ConfigError
from penstock.net import tcp
from penstock.net.tls import layered
from penstock.net.tls.tls_layer import ServerTls
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.remoting import Connection, NoAnswerError, RemotingServer
from penstock.rocketmq.remoting_client import UnreachableError, connect, tls_to
from tools.harness.ports import unused_address


class Echo:
    """Answers with what it got; code 1 is not answered, code 2 asks back first."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def handle(self, connection: Connection, request: Command) -> Command | None:
        return None if request.code == 1 else request.answer(ext=request.ext, body=request.body)

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def disconnected(self, connection: Connection) -> None: ...


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def listener(echo: Echo) -> AsyncIterator[tcp.Listener]:
    server = RemotingServer(echo)
    listener = await tcp.listen(server, "127.0.0.1:0")
    yield listener
    await listener.close()
    server.close_connections()


async def test_questions_and_answers(listener: tcp.Listener, echo: Echo) -> None:
    connection = await connect(f"localhost:{listener.port}", 30)
    answer = await connection.invoke(9, {"a": "b"}, b"body", seconds=30)
    assert (answer.ext, answer.body) == ({"a": "b"}, b"body")
    asked = await echo.connections[0].invoke(40, seconds=30)
    assert asked.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    connection.close()


async def test_the_end_of_a_connection(listener: tcp.Listener, echo: Echo) -> None:
    lost = asyncio.Event()
    connection = await connect(listener.address, 30, lost=lost.set)
    asking = asyncio.ensure_future(connection.invoke(1, seconds=30))
    async with asyncio.timeout(60):
        while not echo.connections:  # noqa: ASYNC110  # the loop has it soon
            await asyncio.sleep(0)
    echo.connections[0].close()
    with pytest.raises(NoAnswerError, match="is gone"):
        await asking
    async with asyncio.timeout(30):
        await lost.wait()


async def test_a_peer_that_does_not_answer(listener: tcp.Listener) -> None:
    connection = await connect(listener.address, 30)
    with pytest.raises(NoAnswerError, match=r"within 0\.01 s"):
        await connection.invoke(1, seconds=0.01)
    connection.close()


async def test_nobody_there() -> None:
    with pytest.raises(UnreachableError):
        await connect(unused_address(), 30)
    with pytest.raises(UnreachableError, match="port"):
        await connect("nonsense", 30)
    with pytest.raises(UnreachableError):
        await connect("name.invalid:9876", 30)


async def test_tls(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered, "HANDSHAKE_S", 60.0)
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    tls = ServerTls(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    server = RemotingServer(echo, tls=tls, tls_only=True)
    listener = await tcp.listen(server, "127.0.0.1:0")
    address = f"localhost:{listener.port}"
    for context in (
        tls_to(str(tmp_path / "ca.pem"), auth_server=True),
        tls_to("", auth_server=False),
    ):
        connection = await connect(address, 30, tls=context)
        assert (await connection.invoke(9, body=b"x", seconds=30)).body == b"x"
        connection.close()
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        await connect(address, 30, tls=tls_to("", auth_server=True))
    with pytest.raises(ConfigError):
        tls_to(str(tmp_path / "none.pem"), auth_server=True)
    await listener.close()
    server.close_connections()
