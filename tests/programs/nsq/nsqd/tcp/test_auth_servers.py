"""Who is asked, in which order, for how long, and what the log says (NSQ spec 1.10)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.net.tls.tls_layer import client_context
from penstock.nsq.nsqd.tcp import auth_servers
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.protocol.auth import Credentials
from tests.programs.nsq.nsqd.auth_server import (
    SLOW,
    AuthServer,
    chunked,
    granted,
    http,
    run_auth_server,
)
from tests.programs.nsq.nsqd.conftest import PATIENCE_NS, options
from tools.harness.ports import unused_address

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
def auth() -> Iterator[AuthServer]:
    with run_auth_server() as server:
        yield server


@pytest.fixture
def dead() -> str:
    """An address where nobody listens."""
    return unused_address()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize("method", ["get", "post"])
async def test_what_is_asked(auth: AuthServer, method: str) -> None:
    auth.answers["s"] = granted(identity="bob")
    found = await servers(auth.address, method=method).ask(CLIENT, "client")
    assert found is not None
    assert found.identity == "bob"
    (asked,) = auth.asked
    assert asked.method == method.upper()
    assert asked.headers["host"] == auth.address
    assert asked.headers["accept"] == "application/vnd.nsq; version=1.0"
    if method == "get":
        assert asked.target == "/auth?common_name=&remote_ip=1.2.3.4&secret=s&tls=false"
        assert "content-type" not in asked.headers
    else:
        assert asked.target == "/auth"
        assert asked.headers["content-type"] == "application/json"
        assert asked.body == (
            b'{"common_name":[""],"remote_ip":["1.2.3.4"],"secret":["s"],"tls":["false"]}'
        )


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
        (granted(ttl=60.0), "json: cannot unmarshal number 60.0 into ttl of type int"),
        (granted({"permissions": ["admin"]}), 'unknown permission "admin"'),
        (granted({"topic": "["}), 'unable to compile topic "[" "missing ]: ["'),
        (http(b"oops", "500 Internal Server Error"), 'got response 500 "oops"'),
        (http({"ttl": 1}, "201 Created"), 'got response 201 "{\\"ttl\\": 1}"'),
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


async def test_no_time_out_is_a_long_one() -> None:
    asked = servers("h:1", connect_timeout_ns=0, request_timeout_ns=-5)
    assert (asked._connect_ns, asked._request_ns) == (auth_servers.TIME_MAX,) * 2


# --- many clients ---------------------------------------------------------------------------------


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


# --- https ----------------------------------------------------------------------------------------


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


async def test_an_unknown_authority(
    server_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with run_auth_server(server_tls) as auth:
        assert await servers(f"https://{auth.address}").ask(CLIENT, "c") is None
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


async def test_only_the_ca_is_trusted(server_tls: ssl.SSLContext, tmp_path: Path) -> None:
    path = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    with run_auth_server(server_tls) as auth:
        asked = servers(f"https://{auth.address}", tls=client_context(str(path)))
        assert await asked.ask(CLIENT, "c") is None
    assert client_context(str(path)).cert_store_stats()["x509_ca"] == 1


async def test_from_options(tmp_path: Path, ca_file: str) -> None:
    assert AuthServers.of(options(tmp_path)) is None
    missing = str(tmp_path / "none.pem")
    for addresses in ((), ("a:1",)):
        with pytest.raises(ConfigError, match=f"open {missing}: no such file or directory"):
            AuthServers.of(
                options(tmp_path, tls_root_ca_file=missing, auth_http_addresses=addresses)
            )
    assert AuthServers.of(options(tmp_path, tls_root_ca_file=ca_file)) is None
    changes = {"auth_http_addresses": ("a:1", "b:2"), "tls_root_ca_file": ca_file}
    found = AuthServers.of(options(tmp_path, **changes))
    assert found is not None
    assert found._tls is not None
    assert found._addresses == ["a:1", "b:2"]
