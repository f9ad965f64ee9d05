"""Asking daemons, in an event loop and without one."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import Struct

from penstock.cluster import http_client as asker_module
from penstock.cluster.access import Access
from penstock.cluster.blocking import Daemon, secured
from penstock.cluster.exchange import Timeouts
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import (
    PLAIN,
    AddressError,
    RefusedError,
    UnexpectedError,
    UnreachableError,
    UpstreamError,
)
from penstock.core.quote import quote
from penstock.net.http.server.service import Response
from penstock.net.http.server.v1_api import NSQ_HEADER, error_response, plain_response
from penstock.testing.daemons import run_nsqd
from tests.programs.cluster.conftest import UPSTREAM_S, StartFake, hang
from tests.unit.nsq.client.fakes import fake_http

DEAD = "127.0.0.1:9"
PATIENT = Timeouts(UPSTREAM_S, UPSTREAM_S)


class Topics(Struct):
    topics: list[str] | None = None


async def failure(http: HttpClient, address: str, target: str = "/topics") -> str:
    with pytest.raises(UpstreamError) as raised:
        await http.get(address, target, Topics)
    return str(raised.value)


async def test_an_answer_and_the_way_it_is_asked(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    daemon.answers["/topics"] = {"topics": ["t"]}
    assert await http.get(daemon.address, "/topics", Topics) == Topics(["t"])
    assert await http.get(daemon.address, "/topics", Topics) == Topics(["t"])
    assert len(daemon.server.connections) == 1  # kept for the next request


async def test_a_post_that_may_have_arrived_is_not_sent_again(http: HttpClient) -> None:
    """A channel would be emptied twice."""
    asked: list[bytes] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", b""):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await http.get_bytes(address, "/ping") == b"OK"
        with pytest.raises(UpstreamError, match="EOF"):
            await http.post(address, "/channel/empty?topic=t&channel=c")
    assert len(asked) == 2


async def test_an_answer_as_before_1_0(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    body = b'{"status_code":200,"status_txt":"OK","data":{"topics":["t"]}}'
    daemon.answers["/topics"] = Response(200, body, "application/json")
    assert await http.get(daemon.address, "/topics", Topics) == Topics(["t"])


async def test_a_refusal(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    daemon.answers["/topics"] = error_response(404, "TOPIC_NOT_FOUND")
    expected = 'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"'
    assert await failure(http, daemon.address) == expected
    with pytest.raises(UpstreamError, match="404 Not Found"):
        await http.post(daemon.address, "/topics")


async def test_nobody_listens(http: HttpClient) -> None:
    expected = f'Get "http://{DEAD}/topics": dial tcp {DEAD}: connect: connection refused'
    assert await failure(http, DEAD) == expected
    with pytest.raises(UpstreamError, match=r'^Post "http'):
        await http.post(DEAD, "/topic/pause?topic=t")


@pytest.mark.parametrize("body", [b"oops", b"[1]", b'{"topics":[1]}', b"[" * 100_000, b"\xff", b""])
async def test_what_is_not_expected(fake: StartFake, http: HttpClient, body: bytes) -> None:
    daemon = await fake()
    for headers in ((), (NSQ_HEADER,)):
        daemon.answers["/topics"] = Response(200, body, "text/plain", headers)
        text = await failure(http, daemon.address)
        url = f'Get "http://{daemon.address}/topics": the answer is not what is expected'
        assert text.startswith(url)
        assert len(text) < 300


async def test_a_daemon_that_hangs(fake: StartFake) -> None:
    daemon = await fake()
    daemon.answers["/topics"] = hang()
    http = HttpClient(Timeouts(UPSTREAM_S, 0.03), agent="test")
    assert "context deadline exceeded" in await failure(http, daemon.address)
    await http.close()


async def test_an_answer_that_is_too_long(
    fake: StartFake, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await fake()
    daemon.answers["/topics"] = plain_response("x" * 2000)
    monkeypatch.setattr(asker_module, "ANSWER_MAX", 1000)
    assert "longer than 1000 bytes" in await failure(http, daemon.address)


async def test_an_error_page_is_repeated_in_part(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    daemon.answers["/topics"] = plain_response("x" * 100_000, 500)
    assert len(await failure(http, daemon.address)) < 1200


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "what answers there does not speak HTTP"),
        (
            b"\0\0\0\x12\0\0\0\1E_BAD_PROTOCOL",
            "that is the TCP port of nsqd or nsqlookupd; HTTP "
            "is at another, by default 4151 or 4161",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "EOF"),
        (b"", "EOF"),
    ],
)
async def test_who_does_not_speak_http(http: HttpClient, said: bytes, problem: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        assert problem in await failure(http, f"{host}:{port}")


async def test_a_refusal_without_https_port(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    for body in (b"no", b'{"https_port":0}', b'{"https_port":99999}'):
        daemon.answers["/topics"] = Response(403, body)
        assert await failure(http, daemon.address) == ("got response 403 Forbidden " + quote(body))


async def test_https_that_is_none(fake: StartFake, http: HttpClient) -> None:
    daemon = await fake()
    port = int(daemon.address.rpartition(":")[2])
    daemon.answers["/topics"] = Response(403, b'{"https_port":%d}' % port)
    text = await failure(http, daemon.address)
    assert text.startswith(f'Get "https://127.0.0.1:{port}/topics": ')
    assert "TLS handshake" in text


@pytest.mark.parametrize("address", ["nowhere.invalid:1", "127.0.0.1:nosuchport", "x", ""])
async def test_addresses_that_are_none(http: HttpClient, address: str) -> None:
    assert (await failure(http, address)).startswith(f'Get "http://{address}/topics": ')


async def test_no_more_at_once_than_there_is_room(
    fake: StartFake, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_room", asyncio.Semaphore(3))
    daemon = await fake()
    daemon.answers["/topics"] = {"topics": []}
    await asyncio.gather(*(http.get(daemon.address, "/topics", Topics) for _ in range(20)))
    assert len(daemon.server.connections) <= 3


REFUSAL = Response(403, b'{"message":"TLS_REQUIRED","https_port":1}')


async def test_no_secret_goes_over_plain_http_where_the_node_wants_tls(fake: StartFake) -> None:
    daemon = await fake()
    daemon.answers = {"/ping": REFUSAL, "/topics": REFUSAL}
    async with HttpClient(PATIENT, agent="test", access=Access(auth_secret="s")) as http:
        assert await failure(http, daemon.address) == (
            'Get "https://127.0.0.1:1/topics": dial tcp 127.0.0.1:1: connect: connection refused'
        )
    assert daemon.asked == ["GET /ping"]


async def test_where_tls_is_wanted_nothing_is_asked_over_plain_http(fake: StartFake) -> None:
    daemon = await fake()
    daemon.answers = {"/ping": Response(200, b"OK"), "/topics": {"topics": ["t"]}}
    access = Access(tls=True, https_port=1)
    async with HttpClient(PATIENT, agent="test", access=access, wording=PLAIN) as http:
        for _ in range(2):  # asked again: it may have come back at another port
            text = "127.0.0.1:1 cannot be reached: connection refused"
            assert await failure(http, daemon.address) == text
        assert daemon.asked == ["GET /ping", "GET /ping"]
        assert await http.get(f"http://{daemon.address}/", "/topics", Topics) == Topics(["t"])


async def test_the_secret_goes_to_a_node_without_tls(fake: StartFake) -> None:
    daemon = await fake()
    daemon.answers = {"/ping": Response(200, b"OK"), "/topics": {"topics": ["t"]}}
    async with HttpClient(PATIENT, agent="test", access=Access(auth_secret="s")) as http:
        for _ in range(2):
            assert await http.get(daemon.address, "/topics", Topics) == Topics(["t"])
    assert daemon.asked == ["GET /ping", "GET /topics", "GET /topics"]


# --- Asking daemons without an event loop --------------------------------------------------------


def test_a_daemon() -> None:
    with run_nsqd() as nsqd, Daemon(f"http://{nsqd.http}/", UPSTREAM_S) as daemon:
        daemon.post("/topic/create", topic="t#ephemeral")
        stats = daemon.get("/stats", format="json", topic="t#ephemeral")
        assert [topic["topic_name"] for topic in stats["topics"]] == ["t#ephemeral"]
        with pytest.raises(RefusedError, match=f"^{nsqd.http}: 404 TOPIC_NOT_FOUND$"):
            daemon.get("/topic/peek", topic="u")
        with pytest.raises(RefusedError) as raised:
            daemon.get("/no/such/page")
        assert raised.value.is_unknown
        nsqd.restart()  # the kept connection is gone
        assert daemon.ask("GET", "/ping").body == b"OK"


def test_nobody_answers() -> None:
    refused = r"^127\.0\.0\.1:1 cannot be reached: connection refused$"
    with Daemon("127.0.0.1:1", 10) as daemon, pytest.raises(UnreachableError, match=refused):
        daemon.get("/ping")
    for address in ("nonsense", "h:99999", "h:nosuchport"):
        with pytest.raises(ValueError, match="port"):
            Daemon(address, UPSTREAM_S)
    with pytest.raises(AddressError, match="'a b'"):
        Daemon("a b:1", 10)
    with Daemon("\u00e9..:1", 10) as daemon, pytest.raises(UnreachableError, match="idna"):
        daemon.get("/ping")
    bad = {"A": "b\nc"}
    with Daemon("h:1", 10, headers=bad) as daemon, pytest.raises(UnreachableError, match="header"):
        daemon.get("/ping")


def test_somebody_else_listens_there() -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"220 mail.example.com ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        server.settimeout(UPSTREAM_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        pool.submit(answer, server)
        daemon = Daemon(address, UPSTREAM_S)
        with daemon, pytest.raises(UnreachableError, match="not speak HTTP"):
            daemon.get("/info")
    with fake_http() as node:
        node.json("/info", [])
        with Daemon(node.address, UPSTREAM_S) as daemon, pytest.raises(UnexpectedError):
            daemon.get("/info")


def test_where_https_is_wanted() -> None:
    with fake_http() as node:
        node.json("/ping", {"message": "TLS_REQUIRED", "https_port": 4444}, 403)
        for access in (Access(), Access(tls=True, auth_secret="s3cret")):
            assert secured(node.address, access, UPSTREAM_S) == "https://127.0.0.1:4444"
        assert all("Authorization" not in headers for headers in node.headers)
        node.json("/ping", {}, 200)
        assert secured(node.address, Access(), UPSTREAM_S) == node.address
        assert secured(node.address, Access(tls=True), UPSTREAM_S) == "https://127.0.0.1:4152"
    assert secured("https://h:1", Access(tls=True), UPSTREAM_S) == "https://h:1"
