"""What a client may do when nsqd has auth servers, and whom nsqd asks (NSQ spec 1.3 and 1.10).

Every answer to a client is in the recorded exchanges; here is what they do not show.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.net.tls.tls_layer import client_context
from penstock.nsq.nsqd.tcp import auth as auth_module
from penstock.nsq.nsqd.tcp import auth_servers
from penstock.nsq.nsqd.tcp.auth import GuardedSession
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.nsqd.tcp.connection import ENDED
from penstock.nsq.protocol.auth import Credentials
from penstock.nsq.protocol.encode import MAGIC_V2
from tests.programs.nsq.nsqd.auth_server import (
    SLOW,
    AuthServer,
    chunked,
    entry,
    granted,
    http,
    run_auth_server,
)
from tests.programs.nsq.nsqd.conftest import (
    PATIENCE_NS,
    TIMEOUT_S,
    Client,
    Running,
    Start,
    dpub,
    mpub,
    options,
    pub,
)
from tools.harness.ports import unused_address

ANSWER = b'{"identity":"","identity_url":"","permission_count":1}'


def auth_command(secret: str | bytes) -> bytes:
    body = secret if isinstance(secret, bytes) else secret.encode()
    return b"AUTH\n" + struct.pack(">i", len(body)) + body


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with run_auth_server() as server:
        yield server


@pytest.fixture
async def nsqd(start: Start, auth: AuthServer) -> Running:
    return await start(auth_http_addresses=(auth.address,))


async def session_of(running: Running, client: Client) -> GuardedSession:
    port = client.writer.get_extra_info("sockname")[1]

    def found() -> list[GuardedSession]:
        sessions = [each for each in running.nsqd.sessions if isinstance(each, GuardedSession)]
        return [each for each in sessions if each.connection.remote_address.endswith(f":{port}")]

    await running.until(lambda: bool(found()))
    return found()[0]


async def being_asked_about(nsqd: Running, auth: AuthServer) -> tuple[Client, GuardedSession]:
    """A client about which the server is asked and says nothing."""
    auth.answers["slow"] = SLOW
    client = await nsqd.connect()
    client.send(auth_command("slow"))
    await nsqd.until(lambda: len(auth.asked) == 1)
    return client, await session_of(nsqd, client)


async def expired(running: Running, client: Client) -> GuardedSession:
    """The client's session, with its time over."""
    own = await session_of(running, client)
    own._expires_ns = 0
    return own


async def test_a_secret_that_is_too_long(
    nsqd: Running, auth: AuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    longest = "x" * 65536
    auth.answers[longest] = granted()
    client = await nsqd.connect()
    assert await client.ask(auth_command(longest)) == ANSWER
    client = await nsqd.connect()
    assert await client.error(auth_command(longest + "x")) == "E_AUTH_FAILED AUTH failed"
    assert "AUTH failed the secret has 65537 bytes, more than 65536" in caplog.text
    assert len(auth.asked) == 1


async def test_what_is_pipelined_behind_auth_is_answered_though_nothing_follows(
    nsqd: Running, auth: AuthServer
) -> None:
    auth.answers["s"] = granted(identity="bob", identity_url="http://bob")
    client = await nsqd.connect()
    client.send(auth_command("s") + pub("t", b"1") + mpub("t", b"2") + b"SUB t c\n")
    client.writer.write_eof()
    answer = await client.ask(b"")
    assert answer == b'{"identity":"bob","identity_url":"http://bob","permission_count":1}'
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3
    assert await client.closed()


# --- permissions


async def authorized(nsqd: Running, auth: AuthServer, *answers: bytes) -> Client:
    """A client that said AUTH; the answers are those of the server, one by one."""
    auth.answers["s"] = answers
    client = await nsqd.connect()
    assert await client.ask(auth_command("s")) == ANSWER
    return client


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (pub("other", b"x"), 'PUB on "other" ""'),
        (dpub("other", 0, b"x"), 'DPUB on "other" ""'),
        (b"MPUB other\n", 'MPUB on "other" ""'),
        (b"SUB other c\n", 'SUB on "other" "c"'),
        (b"SUB mine d#ephemeral\n", 'SUB on "mine" "d#ephemeral"'),
    ],
)
async def test_what_is_not_allowed(
    nsqd: Running, auth: AuthServer, command: bytes, text: str
) -> None:
    client = await authorized(nsqd, auth, granted(entry("^mine$", ["^c?$"])))
    client.send(pub("mine", b"1") + mpub("mine", b"2") + command + pub("mine", b"3"))
    assert [await client.frame() for _ in range(2)] == [(0, b"OK")] * 2
    assert await client.error() == f"E_UNAUTHORIZED AUTH failed for {text}"
    assert await client.closed()
    assert list(nsqd.nsqd.node.broker.topics) == ["mine"]
    assert (await nsqd.topic("mine"))["message_count"] == 2
    assert len(auth.asked) == 1


async def test_what_was_allowed_is_not_looked_up_again(
    nsqd: Running, auth: AuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_module, "TOPICS_MAX", 2)
    client = await authorized(nsqd, auth, granted())
    own = await session_of(nsqd, client)
    for topic in ("a", "a", "b", "c", "c"):
        assert await client.ask(pub(topic, b"x")) == b"OK"
    assert own._publishes_to == {"c"}


# --- when the time is over


@pytest.mark.parametrize("command", [pub("t", b"2"), mpub("t", b"2"), b"SUB t c\n"])
async def test_the_server_is_asked_again(nsqd: Running, auth: AuthServer, command: bytes) -> None:
    client = await authorized(nsqd, auth, granted(), granted(identity="later"))
    assert await client.ask(pub("t", b"1")) == b"OK"
    own = await expired(nsqd, client)
    client.send(command + pub("t", b"3"))
    assert [await client.frame() for _ in range(2)] == [(0, b"OK")] * 2
    assert len(auth.asked) == 2
    assert own.authorizations is not None
    assert own.authorizations.identity == "later"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (pub("t", b"2"), 'PUB on "t" ""'),
        (b"MPUB t\n", 'MPUB on "t" ""'),
        (b"SUB t c\n", 'SUB on "t" "c"'),
    ],
)
@pytest.mark.parametrize("less", [[entry("other")], None])
async def test_and_may_allow_less(
    nsqd: Running, auth: AuthServer, command: bytes, text: str, less: list[dict[str, object]] | None
) -> None:
    client = await authorized(nsqd, auth, granted(), http({"ttl": 60, "authorizations": less}))
    assert await client.ask(pub("t", b"1")) == b"OK"
    await expired(nsqd, client)
    assert await client.error(command) == f"E_UNAUTHORIZED AUTH failed for {text}"
    assert (await nsqd.topic("t"))["message_count"] == 1


async def test_or_fail(nsqd: Running, auth: AuthServer, caplog: pytest.LogCaptureFixture) -> None:
    client = await authorized(nsqd, auth, granted(), http(b"", "503 Service Unavailable"))
    assert await client.ask(pub("t", b"1")) == b"OK"
    own = await expired(nsqd, client)
    assert await client.error(pub("t", b"2")) == "E_AUTH_FAILED AUTH failed"
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    address = own.connection.remote_address
    assert lines == [
        f"PROTOCOL(V2): [{address}] AUTH failed to auth against {auth.address}"
        ' - got response 503 ""',
        f"client({address}) - E_AUTH_FAILED AUTH failed",
    ]


async def test_owed_answers_come_before_the_failure_of_a_later_query(
    start: Start, auth: AuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsqd = await start(auth_http_addresses=(auth.address,))
    client = await authorized(nsqd, auth, granted(), http(b"", "500 Oh"))
    own = await session_of(nsqd, client)
    # The first publish of the packet is in time and still owed, the second is not in time.
    original = GuardedSession._admit_publish

    def may(self: GuardedSession, event: object, command: str, topic: str) -> bool:
        if topic == "u":
            self._expires_ns = 0
        return original(self, event, command, topic)  # type: ignore[arg-type]

    monkeypatch.setattr(GuardedSession, "_admit_publish", may)
    client.send(pub("t", b"1") + pub("u", b"2"))
    assert await client.frame() == (0, b"OK")
    assert await client.error() == "E_AUTH_FAILED AUTH failed"
    assert own.connection.phase is ENDED


async def test_a_consumer_goes_on_when_its_time_is_over(nsqd: Running, auth: AuthServer) -> None:
    client = await authorized(nsqd, auth, granted())
    await client.subscribe("t", ready=1)
    await expired(nsqd, client)
    assert (await nsqd.post("/mpub?topic=t", b"1\n2"))[0] == 200  # HTTP is not covered
    first = await client.message()
    client.send(b"TOUCH %s\nFIN %s\n" % (first.id, first.id))
    second = await client.message()
    client.send(b"REQ %s 0\nRDY 1\n" % second.id)
    assert (await client.message()).attempts == 2
    assert await client.ask(b"CLS\n") == b"CLOSE_WAIT"
    assert len(auth.asked) == 1


# --- while the server is asked


async def test_the_rest_goes_on_meanwhile(nsqd: Running, auth: AuthServer) -> None:
    waiting, _ = await being_asked_about(nsqd, auth)
    waiting.send(pub("t", b"x"))
    other = await authorized(nsqd, auth, granted())
    assert await other.ask(pub("t", b"1")) == b"OK"
    assert await waiting.silent(0.05)
    assert await nsqd.get("/ping") == (200, b"OK")


async def test_a_client_that_vanishes_is_forgotten(nsqd: Running, auth: AuthServer) -> None:
    client, own = await being_asked_about(nsqd, auth)
    query = own._query
    assert query is not None
    # A reset, for the end of what it sends alone would not tell that it waits for no answer.
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.transport.abort()
    await nsqd.until(lambda: not nsqd.nsqd.sessions)
    await nsqd.until(lambda: own._query is None)
    assert query.cancelled()


async def test_a_client_that_closes_is_forgotten_with_the_answer(
    nsqd: Running, auth: AuthServer
) -> None:
    client, _ = await being_asked_about(nsqd, auth)
    client.writer.close()
    await asyncio.sleep(0.02)
    assert nsqd.nsqd.sessions
    auth.released.set()
    await nsqd.until(lambda: not nsqd.nsqd.sessions)


async def test_nsqd_stops_meanwhile(nsqd: Running, auth: AuthServer) -> None:
    client, own = await being_asked_about(nsqd, auth)
    async with asyncio.timeout(TIMEOUT_S):  # a query may take twice as long
        await nsqd.stop()
    assert await client.closed()
    assert own._query is None


async def test_a_query_that_breaks_fails_and_does_not_hang(
    nsqd: Running, auth: AuthServer, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    assert nsqd.nsqd.auth_servers is not None
    monkeypatch.setattr(nsqd.nsqd.auth_servers, "ask", broken)
    client = await nsqd.connect()
    assert await client.error(auth_command("s")) == "E_AUTH_FAILED AUTH failed"
    assert "a bug" in caplog.text


async def test_many_clients_at_once(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = granted()
    clients = [await nsqd.connect() for _ in range(100)]
    answers = await asyncio.gather(*(client.ask(auth_command("s")) for client in clients))
    assert answers == [ANSWER] * 100


# --- /stats


async def test_stats_of_a_client(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = granted(identity="bob", identity_url="http://bob")
    auth.answers["t"] = granted()
    for secret in "st":
        client = await nsqd.connect()
        await client.ask(auth_command(secret))
        await client.subscribe("t", secret)
    channels = (await nsqd.topic("t"))["channels"]
    named, nameless = (channel["clients"][0] for channel in channels)
    keys = list(named)
    start = keys.index("user_agent") + 1
    assert keys[start : start + 4] == ["authed", "auth_identity", "auth_identity_url",
                                       "topology_zone"]  # fmt: skip
    assert (named["authed"], named["auth_identity"]) == (True, "bob")
    assert named["auth_identity_url"] == "http://bob"
    assert nameless["authed"] is True
    assert not {"auth_identity", "auth_identity_url"} & set(nameless)


async def test_remote_ip(start: Start, auth: AuthServer, tmp_path: Path) -> None:
    auth.answers["s"] = granted()
    path = tmp_path / "nsqd:1.sock"
    nsqd = await start(auth_http_addresses=(auth.address,), tcp_address=str(path),
                       data_path=str(tmp_path))  # fmt: skip
    client = Client(*await asyncio.open_unix_connection(path))
    assert await client.ask(MAGIC_V2 + auth_command("s")) == ANSWER
    assert auth.asked[0].target == "/auth?common_name=&remote_ip=&secret=s&tls=false"
    client.writer.close()
    await nsqd.stop()


# --- who is asked, in which order, for how long, and what the log says


CLIENT = Credentials(b"s", "1.2.3.4")


class Always:
    """A chance that always says the same."""

    def __init__(self, number: int) -> None:
        self.number = number

    def below(self, limit: int) -> int:
        return self.number % limit

    def fraction(self) -> float:
        return 0.0


def servers(*addresses: str, start: int = 0, **changes: Any) -> AuthServers:
    settings = {
        "method": "get",
        "connect_timeout_ns": PATIENCE_NS,
        "request_timeout_ns": PATIENCE_NS,
        "chance": Always(start),
    }
    return AuthServers(addresses, **{**settings, **changes})


@pytest.fixture
def dead() -> str:
    """An address where nobody listens."""
    return unused_address()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


async def test_a_chunked_answer(auth: AuthServer) -> None:
    auth.answers["s"] = chunked(b'{"ttl":5,"authorizations":[{}]}')
    found = await servers(auth.address).ask(CLIENT, "client")
    assert found is not None
    assert found.ttl_ns == 5 * SECOND


async def test_each_in_turn_from_a_random_one_on(
    auth: AuthServer, dead: str, caplog: pytest.LogCaptureFixture
) -> None:
    auth.answers["s"] = granted()
    addresses = (f"http://{dead}/b", f"http://{auth.address}/a", f"http://u:hidden@{dead}/c")
    assert await servers(*addresses, start=2).ask(CLIENT, "1.2.3.4:5") is not None
    first, second = warnings(caplog)
    prefix = "PROTOCOL(V2): [1.2.3.4:5] AUTH failed to auth against "
    assert first.startswith(f"{prefix}http://u:***@{dead}/c - ")
    assert second.startswith(f"{prefix}http://{dead}/b - ")
    assert "onnect" in second  # asyncio and uvloop word it in their own ways
    assert "secret" not in caplog.text
    caplog.clear()
    assert await servers(*addresses, start=1).ask(CLIENT, "1.2.3.4:5") is not None
    assert warnings(caplog) == []


async def test_the_start_is_random(auth: AuthServer) -> None:
    auth.answers["s"] = granted()
    addresses = [f"http://{auth.address}/{i}" for i in range(3)]
    asked = AuthServers(addresses, "get", PATIENCE_NS, PATIENCE_NS)
    for _ in range(40):
        assert await asked.ask(CLIENT, "c") is not None
    assert {each.target[1] for each in auth.asked} == set("012")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http(b"no JSON"), "Expecting value: line 1 column 1 (char 0)"),
        (http({"ttl": 0}), "invalid TTL 0 (must be >0)"),
        (granted({"topic": "["}), 'unable to compile topic "[" "missing ]: ["'),
        (http(b"oops", "500 Internal Server Error"), 'got response 500 "oops"'),
        (http(b"", "302 Found"), 'got response 302 ""'),
        (http(b"x" * (2 << 20)), "the answer is longer than 1048576 bytes"),
        (chunked(b"x" * (2 << 20)), "the answer is longer than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (4 << 20), "the answer is longer than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "the connection ended before"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (http(b"", "302 Found", "Location: ftp://h/"), "not an http address"),
    ],
)
async def test_answers_of_no_use(
    auth: AuthServer, caplog: pytest.LogCaptureFixture, answer: bytes, reason: str
) -> None:
    auth.answers["s"] = answer
    assert await servers(auth.address).ask(CLIENT, "c") is None
    (line,) = warnings(caplog)
    assert line.startswith(f"PROTOCOL(V2): [c] AUTH failed to auth against {auth.address} - ")
    assert reason in line
    assert "\n" not in line


@pytest.mark.parametrize("address", ["ftp://h/", "http://[", "http://", "h:port", "a b"])
async def test_addresses_of_no_use(address: str, caplog: pytest.LogCaptureFixture) -> None:
    assert await servers(address).ask(CLIENT, "c") is None
    (line,) = warnings(caplog)
    assert line.startswith(f"PROTOCOL(V2): [c] AUTH failed to auth against {address} - ")


async def test_a_slow_server_has_its_time_and_the_next_one_its_own(
    auth: AuthServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(address: str) -> str:
        asked._request_ns = PATIENCE_NS  # from now on: the next one is only late at the worst
        return address

    monkeypatch.setattr(auth_servers, "without_secrets", shown)
    auth.answers["s"] = SLOW
    with run_auth_server() as other:
        other.answers["s"] = granted()
        asked = servers(auth.address, other.address, request_timeout_ns=SECOND)
        assert await asked.ask(CLIENT, "c") is not None
    assert warnings(caplog) == [
        f"PROTOCOL(V2): [c] AUTH failed to auth against {auth.address} - no answer within 1s"
    ]


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.1 200 OK\r\nX-Y: "]
)
async def test_half_an_answer_has_no_more_time(
    auth: AuthServer, caplog: pytest.LogCaptureFixture, start: bytes
) -> None:
    auth.stalls, auth.answers["s"] = True, start
    asked = servers(auth.address, request_timeout_ns=SECOND)
    assert await asked.ask(CLIENT, "c") is None
    (line,) = warnings(caplog)
    assert line.endswith("no answer within 1s")


async def test_redirects_in_a_circle(auth: AuthServer, caplog: pytest.LogCaptureFixture) -> None:
    auth.answers["s"] = http(b"", "302 Found", "Location: /again?secret=s")
    assert await servers(auth.address).ask(CLIENT, "c") is None
    (line,) = warnings(caplog)
    assert line.endswith("stopped after 10 redirects")
    assert len(auth.asked) == 10


async def test_redirects_are_followed(auth: AuthServer) -> None:
    onward = http(b"", "307 Temporary Redirect", "Location: /auth/")
    auth.answers["s"] = (onward, granted())
    assert await servers(auth.address, method="post").ask(CLIENT, "c") is not None
    assert [(each.method, each.target) for each in auth.asked] == [
        ("POST", "/auth"),
        ("POST", "/auth/"),
    ]


# --- many clients


async def test_not_too_many_queries_at_once(
    auth: AuthServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(auth_servers, "QUERIES_MAX", 3)
    auth.answers["slow"] = SLOW
    asked = servers(auth.address, request_timeout_ns=30 * SECOND)
    slow = [asyncio.create_task(asked.ask(Credentials(b"slow"), "c")) for _ in range(5)]
    async with asyncio.timeout(30):
        while len(auth.asked) < 3:  # noqa: ASYNC110  # threads are asked
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    assert len(auth.asked) == 3
    for each in slow:
        each.cancel()
    await asyncio.wait(slow)
    # Those who are gone hold no slot.
    auth.answers["s"] = granted()
    assert None not in await asyncio.gather(*(asked.ask(CLIENT, "c") for _ in range(20)))
    assert auth.at_once <= 6  # the server may not have noticed yet who is gone
    assert warnings(caplog) == []


async def test_who_waits_too_long_for_his_turn_is_told(
    auth: AuthServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(auth_servers, "QUERIES_MAX", 1)
    asked = servers(auth.address, request_timeout_ns=SECOND)
    await asked._slots.acquire()
    assert await asked.ask(CLIENT, "c") is None
    line = "PROTOCOL(V2): [c] AUTH failed too many clients (1) are asked about"
    assert warnings(caplog) == [line]
    asked._slots.release()
    asked._request_ns = PATIENCE_NS
    auth.answers["s"] = granted()
    assert await asked.ask(CLIENT, "c") is not None


# --- https


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


async def test_over_https_with_the_ca(server_tls: ssl.SSLContext, ca_file: str) -> None:
    with run_auth_server(server_tls) as auth:
        auth.answers["s"] = granted()
        asked = servers(f"https://{auth.address}/x", tls=client_context(ca_file))
        assert await asked.ask(CLIENT, "c") is not None
        assert auth.asked[0].target.startswith("/x?common_name=")


@pytest.mark.parametrize("method", ["get", "post"])
async def test_a_403_leads_to_https(
    auth: AuthServer, server_tls: ssl.SSLContext, ca_file: str, method: str
) -> None:
    with run_auth_server(server_tls) as secure:
        port = int(secure.address.rpartition(":")[2])
        auth.answers["s"] = http({"https_port": port}, "403 Forbidden")
        secure.answers["s"] = granted()
        asked = servers(auth.address, method=method, tls=client_context(ca_file))
        assert await asked.ask(CLIENT, "c") is not None
        assert secure.asked[0].target == auth.asked[0].target
        assert secure.asked[0].body == auth.asked[0].body


async def test_a_403_that_leads_nowhere(
    auth: AuthServer, dead: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(dead.rpartition(":")[2])
    auth.answers["s"] = http({"https_port": port}, "403 Forbidden")
    assert await servers(f"http://u:p@{auth.address}/x").ask(CLIENT, "c") is None
    (line,) = warnings(caplog)
    assert f"against http://u:***@{auth.address}/x - " in line
    assert line.endswith(f" (sent on to https://{dead})")


@pytest.mark.parametrize("is_given", [False, True], ids=["no-ca", "another-ca"])
async def test_an_unknown_authority(
    server_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture, tmp_path: Path, is_given: bool
) -> None:
    path = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    tls = client_context(str(path)) if is_given else None
    with run_auth_server(server_tls) as auth:
        assert await servers(f"https://{auth.address}", tls=tls).ask(CLIENT, "c") is None
        assert not auth.asked
    (line,) = warnings(caplog)
    assert "certificate verify failed" in line


async def test_the_minimum_version(
    authority: trustme.CA, ca_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert("127.0.0.1").configure_cert(old)
    with run_auth_server(old) as auth:
        auth.answers["s"] = granted()
        for version, granted_ in ((771, True), (772, False)):
            tls = client_context(ca_file, min_version=version)
            asked = servers(f"https://{auth.address}", tls=tls)
            assert (await asked.ask(CLIENT, "c") is not None) == granted_
    (line,) = warnings(caplog)
    assert "VERSION" in line.upper()


async def test_from_options(tmp_path: Path, ca_file: str) -> None:
    assert AuthServers.of(options(tmp_path)) is None
    missing = str(tmp_path / "none.pem")
    for addresses in ((), ("a:1",)):
        with pytest.raises(ConfigError, match=f"open {missing}: no such file or directory"):
            AuthServers.of(
                options(tmp_path, tls_root_ca_file=missing, auth_http_addresses=addresses)
            )
    assert AuthServers.of(options(tmp_path, tls_root_ca_file=ca_file)) is None
    given = options(
        tmp_path, auth_http_addresses=("a:1", "b:2"), tls_root_ca_file=ca_file,
        auth_http_request_method="post", http_client_connect_timeout=3 * SECOND,
        http_client_request_timeout=0,
    )  # fmt: skip
    found = AuthServers.of(given)
    assert found is not None
    assert found._tls is not None
    assert (found._addresses, found._method) == (["a:1", "b:2"], "post")
    # No time-out is a long one.
    assert (found._connect_ns, found._request_ns) == (3 * SECOND, auth_servers.TIME_MAX)
