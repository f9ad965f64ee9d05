"""TLS, client certificates, HTTPS and AUTH, as a client meets them."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

import pytest

from tools.harness.auth_server import AuthServer, run_auth_server
from tools.harness.certificates import COMMON_NAME, Certificates
from tools.replay import raw_http
from tools.replay.layers import Deflate, Layer, LayerError, Snappy

from .conftest import Start
from .server import Client, Server, sized

VERIFY = "--tls-client-auth-policy=require-verify"


@pytest.fixture(scope="module")
def auth() -> Iterator[AuthServer]:
    with run_auth_server() as server:
        yield server


async def secure(nsqd: Server, context: ssl.SSLContext, layer: Layer | None = None) -> Client:
    """A client inside TLS, and inside another layer if there is one."""
    client = await nsqd.client()
    names = {Snappy: "snappy", Deflate: "deflate"}
    asked = {names[type(layer)]: True} if layer else {}
    answer = await client.identify(tls_v1=True, user_agent="agent/1", **asked)
    assert answer["tls_v1"]
    await client.connection.start_tls(context)
    assert await client.ask(b"") == b"OK"
    if layer:
        client.connection.add(layer)
        assert await client.ask(b"") == b"OK"
    return client


async def status(nsqd: Server, context: ssl.SSLContext) -> int | None:
    """What GET /ping says over HTTPS; None where TLS is refused."""
    try:
        answer = await raw_http.call(nsqd.daemon.https_port, "GET", "/ping", tls=context)
    except (ssl.SSLError, ConnectionError):
        return None
    return answer.status


# --- TLS


@pytest.mark.parametrize("layer", [None, Snappy, Deflate])
@pytest.mark.parametrize("newest", ["12", "13"])
async def test_large_messages_inside_every_layer(
    start: Start, topic: str, certificates: Certificates, layer: type[Layer] | None, newest: str
) -> None:
    """TLS required for all but HTTP, as in TLSRequired."""
    nsqd = await start(*certificates.flags(), "--tls-required=tcp-https")
    plain = await nsqd.client()
    assert "(TLS required)" in await plain.error(b"SUB %s c\n" % topic.encode())
    client = await secure(nsqd, certificates.context(newest=newest), layer() if layer else None)
    body = bytes(range(256)) * 1024
    await client.publish(topic, b"small", body)
    await client.subscribe(topic, ready=2)
    assert [message.body for message in await client.messages(2)] == [b"small", body]
    (shown,) = (await nsqd.channel(topic))["clients"]
    assert (shown["user_agent"], shown["tls"]) == ("agent/1", True)
    assert shown["tls_version"] == f"TLS1.{newest[1]}"
    assert (shown["snappy"], shown["deflate"]) == (layer is Snappy, layer is Deflate)
    await nsqd.call("POST", f"/pub?topic={topic}", b"over HTTP")


async def test_a_client_without_a_certificate_sees_its_rejection_on_the_first_read(
    start: Start, topic: str, certificates: Certificates
) -> None:
    """With TLS 1.3 the handshake is over for the client before the server judges it."""
    root = f"--tls-root-ca-file={certificates.ca}"
    nsqd = await start(*certificates.flags(), VERIFY, root)
    for identity, newest in ((None, ""), ("self", "")):
        client = await nsqd.client()
        await client.identify(tls_v1=True)
        await client.connection.start_tls(certificates.context(identity, newest))
        assert await client.connection.closed() is None
    client = await nsqd.client()
    await client.identify(tls_v1=True)
    with pytest.raises(LayerError):
        await client.connection.start_tls(certificates.context(newest="12"))
    client = await secure(nsqd, certificates.context("client"))
    await client.publish(topic, b"x")


# --- HTTPS


async def test_https_with_any_client_certificate(
    start: Start, topic: str, certificates: Certificates
) -> None:
    """A policy requires TLS of everybody: plain HTTP is refused and told the other port."""
    nsqd = await start(*certificates.flags(), "--tls-client-auth-policy=require")
    answer = await raw_http.call(nsqd.daemon.http_port, "POST", f"/pub?topic={topic}", b"x")
    assert answer.status == 403
    assert json.loads(answer.body) == {
        "message": "TLS_REQUIRED",
        "https_port": nsqd.daemon.https_port,
    }
    assert await status(nsqd, certificates.context()) is None
    assert await status(nsqd, certificates.context("self")) == 200
    assert await status(nsqd, certificates.context("client")) == 200


async def test_https_with_a_certificate_of_the_ca(
    start: Start, topic: str, certificates: Certificates
) -> None:
    nsqd = await start(*certificates.flags(), VERIFY, f"--tls-root-ca-file={certificates.ca}")
    answer = await raw_http.call(nsqd.daemon.http_port, "GET", "/ping")
    assert answer.status == 403
    assert await status(nsqd, certificates.context()) is None
    assert await status(nsqd, certificates.context("self")) is None
    context = certificates.context("client")
    assert await status(nsqd, context) == 200
    answer = await raw_http.call(
        nsqd.daemon.https_port, "POST", f"/pub?topic={topic}", b"x", tls=context
    )
    assert (answer.status, answer.body) == (200, b"OK")


async def test_http_beside_https(start: Start, topic: str, certificates: Certificates) -> None:
    root = f"--tls-root-ca-file={certificates.ca}"
    nsqd = await start(*certificates.flags(), VERIFY, root, "--tls-required=tcp-https")
    assert await nsqd.call("POST", f"/pub?topic={topic}", b"x") == b"OK"
    assert (await nsqd.topic(topic))["depth"] == 1


async def test_https_asks_for_no_certificate_by_itself(
    start: Start, certificates: Certificates
) -> None:
    nsqd = await start(*certificates.flags())
    assert await status(nsqd, certificates.context()) == 200
    assert await status(nsqd, certificates.context(newest="12")) == 200
    assert await nsqd.call("GET", "/ping") == b"OK"
    plain = await raw_http.call(nsqd.daemon.https_port, "GET", "/ping")
    assert plain.status_line == "HTTP/1.0 400 Bad Request"
    assert plain.body == b"Client sent an HTTP request to an HTTPS server.\n"


# --- AUTH


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("identity", [None, "client"])
async def test_what_an_auth_server_is_asked(
    start: Start, certificates: Certificates, auth: AuthServer, method: str, identity: str | None
) -> None:
    secret = f"se cret/{method}/{identity}"
    auth.allow(secret, topic="test", identity="me", identity_url="http://u")
    flags = [*auth.flags, f"--auth-http-request-method={method}"]
    nsqd = await start(*flags, *certificates.flags())
    if identity:
        client = await secure(nsqd, certificates.context(identity))
    else:
        client = await nsqd.client()
    assert await (await nsqd.client()).error(b"SUB test c\n") == (
        "E_AUTH_FIRST AUTH required before SUB"
    )
    answer = await client.ask(b"AUTH\n" + sized(secret.encode()))
    assert json.loads(answer) == {
        "identity": "me",
        "identity_url": "http://u",
        "permission_count": 1,
    }
    await client.subscribe("test")
    (asked,) = auth.asked(secret)
    # nsqd shows no client certificate to the server unless it must: then the name stays empty.
    _check_asked(asked.method, asked.path, asked.body, method, secret, identity)
    (shown,) = (await nsqd.channel("test"))["clients"]
    assert (shown["authed"], shown["auth_identity"]) == (True, "me")
    assert shown["auth_identity_url"] == "http://u"


def _check_asked(
    verb: str, path: str, body: str, method: str, secret: str, identity: str | None
) -> None:
    tls = "true" if identity else "false"
    if method == "get":
        quoted = secret.replace(" ", "+").replace("/", "%2F")
        query = f"common_name=&remote_ip=127.0.0.1&secret={quoted}&tls={tls}"
        assert (verb, path, body) == ("GET", f"/auth?{query}", "")
        return
    assert (verb, path) == ("POST", "/auth")
    assert json.loads(body) == {
        "common_name": [""],
        "remote_ip": ["127.0.0.1"],
        "secret": [secret],
        "tls": [tls],
    }


async def test_an_auth_server_is_told_the_name_in_the_certificate(
    start: Start, certificates: Certificates, auth: AuthServer
) -> None:
    auth.allow("named")
    root = f"--tls-root-ca-file={certificates.ca}"
    flags = [*certificates.flags(), VERIFY, root, *auth.flags]
    nsqd = await start(*flags)
    client = await secure(nsqd, certificates.context("client"))
    assert json.loads(await client.ask(b"AUTH\n" + sized(b"named")))["permission_count"] == 1
    (asked,) = auth.asked("named")
    assert f"common_name={COMMON_NAME}&remote_ip=127.0.0.1&secret=named&tls=true" in asked.path


async def test_an_auth_server_that_allows_nothing(
    start: Start, certificates: Certificates, auth: AuthServer
) -> None:
    auth.answer("nothing", (200, json.dumps({"ttl": 1, "authorizations": []})))
    nsqd = await start(*auth.flags)
    client = await nsqd.client()
    assert await client.error(b"AUTH\n" + sized(b"nothing")) == (
        "E_UNAUTHORIZED AUTH no authorizations found"
    )
    assert await client.connection.closed() is None
