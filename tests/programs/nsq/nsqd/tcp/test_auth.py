"""What a client may do when nsqd has auth servers (NSQ spec 1.3 and 1.10)."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme

from penstock.nsq.nsqd.tcp import auth as auth_module
from penstock.nsq.nsqd.tcp.auth import GuardedSession
from penstock.nsq.nsqd.tcp.connection import ENDED
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.daemons import Daemon, run_nsqd
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
    TIMEOUT_S,
    Client,
    Running,
    Start,
    dpub,
    identify,
    mpub,
    pub,
)
from tools.harness.patience import PATIENT
from tools.harness.ports import unused_address

ANSWER = b'{"identity":"","identity_url":"","permission_count":1}'
TRIES = 60
"""Connections, each of which begins at a random server: enough that each of three is the first."""


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


async def expired(running: Running, client: Client) -> GuardedSession:
    """The client's session, with its time over."""
    own = await session_of(running, client)
    own._expires_ns = 0
    return own


# --- before AUTH, and AUTH itself -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (b"SUB t c\n", "SUB"),
        (pub("t", b"x"), "PUB"),
        (dpub("t", 1, b"x"), "DPUB"),
        (b"MPUB t\n", "MPUB"),
    ],
)
async def test_auth_comes_first(nsqd: Running, command: bytes, name: str) -> None:
    client = await nsqd.connect()
    identity = json.loads(await client.ask(identify(feature_negotiation=True)))
    assert identity["auth_required"] is True
    assert await client.error(command) == f"E_AUTH_FIRST AUTH required before {name}"
    assert await client.closed()
    assert not nsqd.nsqd.node.broker.topics


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


async def test_auth_twice(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = granted()
    client = await nsqd.connect()
    assert await client.ask(auth_command("s")) == ANSWER
    assert await client.error(auth_command("s")) == "E_INVALID AUTH already set"
    client = await nsqd.connect()
    assert await client.ask(auth_command("s")) == ANSWER
    await client.subscribe("t")
    assert await client.error(auth_command("s")) == "E_INVALID cannot AUTH in current state"


async def test_no_authorizations(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = http({"ttl": 1, "authorizations": []})
    client = await nsqd.connect()
    text = "E_UNAUTHORIZED AUTH no authorizations found"
    assert await client.error(auth_command("s") + pub("t", b"x")) == text
    assert await client.closed()


async def test_pipelined_behind_auth(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = granted(identity="bob", identity_url="http://bob")
    client = await nsqd.connect()
    client.send(auth_command("s") + pub("t", b"1") + mpub("t", b"2") + b"SUB t c\n")
    answer = await client.ask(b"")
    assert answer == b'{"identity":"bob","identity_url":"http://bob","permission_count":1}'
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3


async def test_a_client_that_half_closes_gets_its_answers(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["s"] = granted()
    client = await nsqd.connect()
    client.send(auth_command("s") + pub("t", b"1"))
    client.writer.write_eof()
    assert [await client.frame() for _ in range(2)] == [(0, ANSWER), (0, b"OK")]
    assert await client.closed()


# --- permissions ----------------------------------------------------------------------------------


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


async def test_publish_only_and_subscribe_only(nsqd: Running, auth: AuthServer) -> None:
    producer = await authorized(nsqd, auth, granted(entry(permissions=["publish"])))
    assert await producer.ask(pub("t", b"x")) == b"OK"
    text = 'E_UNAUTHORIZED AUTH failed for SUB on "t" "c"'
    assert await producer.error(b"SUB t c\n") == text
    consumer = await authorized(nsqd, auth, granted(entry(permissions=["subscribe"])))
    await consumer.subscribe("t")
    assert (await consumer.message()).body == b"x"
    text = 'E_UNAUTHORIZED AUTH failed for PUB on "t" ""'
    assert await consumer.error(pub("t", b"x")) == text


async def test_what_was_allowed_is_not_looked_up_again(
    nsqd: Running, auth: AuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_module, "TOPICS_MAX", 2)
    client = await authorized(nsqd, auth, granted())
    own = await session_of(nsqd, client)
    for topic in ("a", "a", "b", "c", "c"):
        assert await client.ask(pub(topic, b"x")) == b"OK"
    assert own._publishes_to == {"c"}


# --- when the time is over ------------------------------------------------------------------------


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


async def test_lone_publishes_ask_again(nsqd: Running, auth: AuthServer) -> None:
    client = await authorized(nsqd, auth, granted(), http({"ttl": 60, "authorizations": None}))
    for _ in range(3):
        assert await client.ask(pub("t", b"1")) == b"OK"
    assert len(auth.asked) == 1
    await expired(nsqd, client)
    assert await client.error(pub("t", b"2")) == 'E_UNAUTHORIZED AUTH failed for PUB on "t" ""'
    assert (await nsqd.topic("t"))["message_count"] == 3


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


# --- while the server is asked --------------------------------------------------------------------


async def test_the_rest_goes_on_meanwhile(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["slow"] = SLOW
    waiting = await nsqd.connect()
    waiting.send(identify() + auth_command("slow") + pub("t", b"x"))
    assert await waiting.frame() == (0, b"OK")
    other = await authorized(nsqd, auth, granted())
    assert await other.ask(pub("t", b"1")) == b"OK"
    assert await waiting.silent(0.05)
    assert await nsqd.get("/ping") == (200, b"OK")


async def test_a_client_that_vanishes_is_forgotten(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["slow"] = SLOW
    client = await nsqd.connect()
    client.send(auth_command("slow"))
    own = await session_of(nsqd, client)
    await nsqd.until(lambda: len(auth.asked) == 1)
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
    auth.answers["slow"] = SLOW
    client = await nsqd.connect()
    client.send(auth_command("slow"))
    await nsqd.until(lambda: len(auth.asked) == 1)
    client.writer.close()
    await asyncio.sleep(0.02)
    assert nsqd.nsqd.sessions
    auth.released.set()
    await nsqd.until(lambda: not nsqd.nsqd.sessions)


async def test_nsqd_stops_meanwhile(nsqd: Running, auth: AuthServer) -> None:
    auth.answers["slow"] = SLOW
    client = await nsqd.connect()
    client.send(auth_command("slow"))
    own = await session_of(nsqd, client)
    await nsqd.until(lambda: len(auth.asked) == 1)
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


# --- /stats ---------------------------------------------------------------------------------------


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


async def test_stats_without_auth_servers(start: Start) -> None:
    nsqd = await start()
    await nsqd.consumer("t")
    (client,) = (await nsqd.channel("t"))["clients"]
    assert not {"authed", "auth_identity", "auth_identity_url"} & set(client)


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


# --- the program itself ---------------------------------------------------------------------------


class Program:
    """An nsqd process and the auth server it asks."""

    def __init__(self, daemon: Daemon, auth: AuthServer) -> None:
        self.daemon = daemon
        self.auth = auth

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.daemon.tcp_port))
        client.send(MAGIC_V2)
        return client


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with (
        run_auth_server() as auth,
        run_nsqd(f"--auth-http-address={auth.address}", *PATIENT) as daemon,
    ):
        yield Program(daemon, auth)


@pytest.fixture
async def client(program: Program) -> AsyncIterator[Client]:
    client = await program.connect()
    yield client
    client.writer.close()


SPECIAL = "a b&c=d/é%+~?#\"'\n"


async def test_a_real_nsqd_lets_in(program: Program, client: Client) -> None:
    program.auth.answers[SPECIAL] = granted(entry("^t$"), identity="bob")
    program.auth.asked.clear()
    answer = json.loads(await client.ask(identify(feature_negotiation=True)))
    assert answer["auth_required"] is True
    answer = await client.ask(auth_command(SPECIAL))
    assert answer == b'{"identity":"bob","identity_url":"","permission_count":1}'
    assert await client.ask(pub("t", b"1") + mpub("t", b"2") + dpub("t", 0, b"3")) == b"OK"
    assert [await client.frame() for _ in range(2)] == [(0, b"OK")] * 2
    await client.subscribe("t", ready=3)
    assert {(await client.message()).body for _ in range(3)} == {b"1", b"2", b"3"}
    (asked,) = program.auth.asked
    assert asked.secret == SPECIAL
    assert asked.target == (
        "/auth?common_name=&remote_ip=127.0.0.1"
        "&secret=a+b%26c%3Dd%2F%C3%A9%25%2B~%3F%23%22%27%0A&tls=false"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http(b"<html>"), "Expecting value: line 1 column 1 (char 0)"),
        (granted(ttl=0), "invalid TTL 0 (must be >0)"),
        (granted(ttl=1.0), "json: cannot unmarshal number 1.0 into ttl of type int"),
        (granted(entry(permissions=["all"])), 'unknown permission "all"'),
        (granted(entry(), entry("*")),
         'unable to compile topic "*" "no argument for repetition operator: *"'),
        (http(b"sorry", "500 Internal Server Error"), 'got response 500 "sorry"'),
        (http({}, "201 Created"), 'got response 201 "{}"'),
        (http(b"denied", "403 Forbidden"), 'got response 403 "denied"'),
        (http(b"x" * (4 << 20)), "the answer is longer than 1048576 bytes"),
        (chunked(b"[1]"), "json: cannot unmarshal array into the whole of type struct"),
    ],
    ids=["html", "ttl-0", "ttl-float", "permission", "pattern", "500", "201", "403", "huge",
         "chunked"],
)  # fmt: skip
async def test_a_real_nsqd_tells_the_log_why_not(
    program: Program, client: Client, answer: bytes, reason: str
) -> None:
    await tells_why_not(program, client, answer, reason)


async def test_a_real_nsqd_does_not_wait_for_ever(auth: AuthServer) -> None:
    flags = (f"--auth-http-address={auth.address}", "--http-client-request-timeout=3s")
    with run_nsqd(*flags) as daemon:
        program = Program(daemon, auth)
        client = await program.connect()
        await tells_why_not(program, client, SLOW, "no answer within 3s")
        client.writer.close()


async def tells_why_not(program: Program, client: Client, answer: bytes, reason: str) -> None:
    program.auth.answers["s"] = answer
    position = len(program.daemon.log().encode())
    assert await client.error(auth_command("s")) == "E_AUTH_FAILED AUTH failed"
    assert await client.closed()
    host, port = client.writer.get_extra_info("sockname")[:2]
    lines = [line for line in program.daemon.log(position).splitlines() if f":{port}" in line]
    told = f"PROTOCOL(V2): [{host}:{port}] AUTH failed to auth against {program.auth.address} - "
    assert [line.partition(told)[2] for line in lines if told in line] == [reason]
    assert any(f"client({host}:{port}) - E_AUTH_FAILED AUTH failed" in line for line in lines)


async def test_posting_to_several_addresses(tmp_path: Path) -> None:
    config = tmp_path / "nsqd.toml"
    dead = unused_address()
    with run_auth_server() as auth, run_auth_server() as other:
        auth.answers["s"] = http(b"", "500 Oh")
        other.answers["s"] = granted()
        addresses = [dead, auth.address, f"http://{other.address}/ask"]
        config.write_text(
            f'auth_http_addresses = {json.dumps(addresses)}\nauth_http_request_method = "post"\n'
        )
        with run_nsqd(f"--config={config}", *PATIENT) as daemon:
            for _ in range(TRIES):
                client = await Program(daemon, auth).connect()
                assert await client.ask(auth_command("s")) == ANSWER
                client.writer.close()
            assert {each.method for each in auth.asked + other.asked} == {"POST"}
            assert [each.target for each in other.asked] == ["/ask"] * TRIES
            assert len(auth.asked) == daemon.log().count(f"{auth.address} - got response 500")
            assert 0 < daemon.log().count(f"failed to auth against {dead} - ") <= len(auth.asked)


async def test_https_and_the_way_there(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with run_auth_server() as auth, run_auth_server(context) as secure:
        port = int(secure.address.rpartition(":")[2])
        auth.answers["s"] = http({"https_port": port}, "403 Forbidden")
        secure.answers["s"] = granted()
        flags = (f"--auth-http-address=https://{secure.address}/direct",
                 f"--auth-http-address={auth.address}",
                 f"--tls-root-ca-file={ca_file}", "--tls-min-version=tls1.2",
                 *PATIENT)  # fmt: skip
        with run_nsqd(*flags) as daemon:
            for _ in range(TRIES):
                client = await Program(daemon, auth).connect()
                assert await client.ask(auth_command("s")) == ANSWER
                client.writer.close()
            assert "failed to auth" not in daemon.log()
        paths = [each.target.partition("?")[0] for each in secure.asked]
        assert sorted(set(paths)) == ["/auth", "/direct"]
        assert paths.count("/auth") == len(auth.asked)


@pytest.mark.parametrize("policy", ["", "require", "require-verify"])
async def test_the_server_is_told_of_tls_and_of_the_certificate(
    start: Start, auth: AuthServer, tmp_path: Path, policy: str
) -> None:
    auth.answers["s"] = granted()
    authority = trustme.CA()
    ca_file, cert, key = (str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca_file)
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(key)
    own.cert_chain_pems[0].write_to_path(cert)
    nsqd = await start(auth_http_addresses=(auth.address,), tls_cert=cert, tls_key=key,
                       tls_client_auth_policy=policy, https_address="127.0.0.1:0",
                       tls_root_ca_file=ca_file if policy == "require-verify" else "")  # fmt: skip
    context = ssl.create_default_context(cafile=ca_file)
    name = "client Ä/1" if policy else None
    if name is not None:
        authority.issue_cert("client.example", common_name=name).configure_cert(context)
    client = await nsqd.connect()
    answer = json.loads(await client.ask(identify(feature_negotiation=True, tls_v1=True)))
    assert (answer["tls_v1"], answer["auth_required"]) == (True, True)
    await client.writer.start_tls(context, server_hostname="127.0.0.1")
    assert await client.frame() == (0, b"OK")
    assert await client.ask(auth_command("s")) == ANSWER
    common_name = "client+%C3%84%2F1" if policy else ""
    assert auth.asked[0].target == (
        f"/auth?common_name={common_name}&remote_ip=127.0.0.1&secret=s&tls=true"
    )
