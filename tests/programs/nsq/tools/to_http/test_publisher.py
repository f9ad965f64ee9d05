from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.nsq.tools.to_http.hops import Endpoint
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed
from tests.forwarding import Sink, serving
from tools.harness.ports import unused_address


@pytest.fixture
async def publisher() -> AsyncIterator[Publisher]:
    publisher = Publisher(connect_timeout=30, request_timeout=30, kept=2)
    yield publisher
    await publisher.close()


def post(address: str) -> Endpoint:
    return Endpoint("POST", address, {"User-Agent": "me"})


async def failure(publisher: Publisher, endpoint: Endpoint) -> str:
    with pytest.raises(PublishFailed) as caught:
        await publisher.publish(endpoint, b"m")
    return str(caught.value)


async def test_it_arrives(publisher: Publisher) -> None:
    with serving() as sink:
        for _ in range(3):
            await publisher.publish(post(f"http://{sink.address}/p"), b"body")
        assert list(sink.bodies()) == [b"body"] * 3
        assert sink.connections == 1


async def test_redirects_are_followed(publisher: Publisher) -> None:
    with serving(302) as sink:
        await publisher.publish(post(f"http://{sink.address}/p"), b"body")
        assert [request.method for request in sink.requests] == ["POST", "GET"]


async def test_redirects_without_end(publisher: Publisher) -> None:
    with serving(307) as sink:
        sink.elsewhere = "/p"
        said = await failure(publisher, post(f"http://{sink.address}/q"))
        assert said == 'Post "/p": stopped after 10 redirects'
        assert len(sink.requests) == 10


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (404, "got status code 404"),
        (Sink.CLOSE, "EOF"),
        (Sink.HALF, "unexpected EOF"),
    ],
)
async def test_failures(publisher: Publisher, answer: int | str, why: str) -> None:
    with serving(answer) as sink:
        url = f"http://{sink.address}/p"
        expected = why if isinstance(answer, int) else f'Post "{url}": {why}'
        assert await failure(publisher, post(url)) == expected


async def test_an_endpoint_that_hangs() -> None:
    publisher = Publisher(connect_timeout=30, request_timeout=0.3, kept=2)
    with serving(Sink.HANG) as sink:
        url = f"http://{sink.address}/p"
        assert await failure(publisher, post(url)) == (
            f'Post "{url}": context deadline exceeded'
            " (Client.Timeout exceeded while awaiting headers)"
        )
    await publisher.close()


async def test_nobody_there(publisher: Publisher) -> None:
    address = unused_address()
    assert await failure(publisher, post(f"http://u:p@{address}/")) == (
        f'Post "http://u:***@{address}/": dial tcp {address}: connect: connection refused'
    )


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (post("nosuch://u:p@x/"), 'Post "nosuch://u:***@x/": unsupported protocol scheme "nosuch"'),
        (post("nosuch://x/"), 'Post "nosuch://x/": unsupported protocol scheme "nosuch"'),
        (
            Endpoint("GET", "h:1/%s", {}),
            'Get "h:1/m": unsupported protocol scheme "h"',
        ),
        (
            post("1.2.3.4:80/p"),
            'parse "1.2.3.4:80/p": first path segment in URL cannot contain colon',
        ),
    ],
)
async def test_addresses_that_lead_nowhere(
    publisher: Publisher, endpoint: Endpoint, why: str
) -> None:
    assert await failure(publisher, endpoint) == why


async def test_what_speaks_no_http(publisher: Publisher) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 mail.example ESMTP\r\n")
            await reader.read(1)
        finally:
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    said = await failure(publisher, post(url))
    assert said.startswith(f'Post "{url}": ')
    server.close()
