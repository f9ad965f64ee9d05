"""nsqadmin as a daemon: options, paths and answers, TLS towards nodes, metrics.

tests/conformance has what is refused at its start in NSQ's words.
"""

from __future__ import annotations

import gzip
import ssl
import zlib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trustme

from penstock.admin.admin_options import AdminOptions, checked, clean_base_path, resolve
from penstock.admin.compression import compressed
from penstock.admin.daemon import client_tls
from penstock.admin.history.poller import PollCounts, Poller
from penstock.admin.metrics import AdminVitals
from penstock.admin.notifications import Notifier
from penstock.admin.router import AdminRouter
from penstock.core.errors import ConfigError
from penstock.core.metrics import nsqadmin as metrics
from penstock.core.settings.options import load
from penstock.core.units import SECOND
from penstock.net.http.server.service import DeferredResponse, Request, Response, text
from penstock.testing.clock import FakeClock
from tests.http_heads import parse_head
from tests.metrics_pages import Page, parse

NODE = ("127.0.0.1:4151",)


def test_defaults() -> None:
    options = AdminOptions()
    assert options.http_address == "0.0.0.0:4171"
    assert options.acl_http_header == "X-Forwarded-User"
    assert (options.http_client_connect_timeout, options.http_client_request_timeout) == (
        2 * SECOND, 5 * SECOND,
    )  # fmt: skip
    assert options.trusted_proxies == ()
    assert (options.connect_s, options.request_s) == (2, 5)
    assert AdminOptions(http_client_request_timeout=0).request_s == 3600  # no bound


def test_every_key_of_the_configuration_file(tmp_path: Path) -> None:
    """As in upstream's contrib/nsqadmin.cfg.example."""
    file = tmp_path / "nsqadmin.cfg"
    file.write_text(
        'log_level = "warn"\nhttp_address = "127.0.0.1:0"\nbase_path = "x/"\n'
        'graphite_url = "http://g"\nproxy_graphite = true\nstatsd_prefix = "a.%s"\n'
        'statsd_counter_format = "c.%s"\nstatsd_gauge_format = "g.%s"\nstatsd_interval = "30s"\n'
        'nsqlookupd_http_addresses = ["127.0.0.1:4161"]\nnsqd_http_addresses = []\n'
        'notification_http_endpoint = "http://n"\nhttp_client_connect_timeout = "1s"\n'
        'http_client_request_timeout = "9s"\nallow_config_from_cidr = ""\nadmin_users = ["a","b"]\n'
        'acl_http_header = "X"\ntrusted_proxies = ["10.0.0.0/8"]\nhistory_interval = "0s"\n'
        'http_client_tls_insecure_skip_verify = true\nhttp_client_tls_root_ca_file = "f"\n'
        'http_client_tls_cert = "c"\nhttp_client_tls_key = "k"\ndev_static_dir = "d"\n'
    )
    options = load(AdminOptions, [f"--config={file}", "--admin-user=c"], "nsqadmin")
    assert options.lookupd_http_addresses == ("127.0.0.1:4161",)
    assert options.admin_users == ("c",)  # a flag wins
    assert options.trusted_proxies == ("10.0.0.0/8",)
    assert (options.statsd_interval, options.history_interval) == (30 * SECOND, 0)
    assert checked(options).base_path == "/x"


def test_a_history_has_an_interval_and_over_rocketmq_alone_there_is_none() -> None:
    with pytest.raises(ConfigError, match=r"^--history-interval must be 1s at least, or 0$"):
        checked(AdminOptions(nsqd_http_addresses=NODE, history_interval=SECOND // 2))
    options = checked(AdminOptions(nsqd_http_addresses=NODE))
    assert (options.has_nodes, options.watch_s) == (True, 10)
    options = checked(AdminOptions(rocketmq_namesrv_addresses=("127.0.0.1:9876",)))
    assert (options.has_nodes, options.watch_s) == (False, 0)


@pytest.mark.parametrize("path", ["/", "", "nsq/admin/", "/nsq//admin", "//nsq/x/../admin"])
def test_base_paths(path: str) -> None:
    assert clean_base_path(path) == ("/nsq/admin" if "nsq" in path else "/")


@pytest.mark.parametrize(
    ("address", "refusal"),
    [
        ("127.0.0.1:4151", ""),
        ("[::1]:4151", ""),
        (":4151", ""),
        ("127.0.0.1:http", ""),
        ("127.0.0.1:x", "lookup tcp/x: unknown port"),
        ("127.0.0.1:99999", "address 99999: invalid port"),
        ("::1:1", "address ::1:1: too many colons in address"),
    ],
)
def test_addresses(address: str, refusal: str) -> None:
    with pytest.raises(ValueError, match=f"^{refusal}$") if refusal else nullcontext():
        resolve(address)


@pytest.mark.parametrize(
    ("url", "reason"),
    [(":bad", "missing protocol scheme"), ("ftp://x", "give http://HOST[:PORT]"),
     ("notaurl", "give http://HOST[:PORT]"), ("http://[", "Invalid IPv6 URL")],
)  # fmt: skip
@pytest.mark.parametrize("flag", ["--graphite-url", "--notification-http-endpoint"])
def test_a_url_to_which_nothing_can_be_sent(flag: str, url: str, reason: str) -> None:
    name = flag.lstrip("-").replace("-", "_")
    with pytest.raises(ConfigError) as raised:
        checked(AdminOptions(nsqd_http_addresses=NODE, proxy_graphite=True,
                             **{"graphite_url": "http://g", name: url}))  # fmt: skip
    assert str(raised.value) == f'failed to parse {flag} ({url}) - parse "{url}": {reason}'


def test_graphite_for_browsers_may_be_a_path_and_is_warned_of_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checked(AdminOptions(nsqd_http_addresses=NODE, graphite_url="/graphite"))
    assert caplog.messages == []
    checked(AdminOptions(nsqd_http_addresses=NODE, graphite_url="notaurl"))
    assert caplog.messages == [
        'failed to parse --graphite-url (notaurl) - parse "notaurl": give http://HOST[:PORT]'
    ]
    for url in ("/graphite", ""):
        with pytest.raises(ConfigError, match="give http://HOST"):
            checked(AdminOptions(nsqd_http_addresses=NODE, graphite_url=url, proxy_graphite=True))


def test_the_four_options(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    own.cert_chain_pems[0].write_to_path(cert)
    own.private_key_pem.write_to_path(key)
    options = AdminOptions(
        http_client_tls_root_ca_file=str(ca),
        http_client_tls_cert=str(cert),
        http_client_tls_key=str(key),
    )
    context = client_tls(options)()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1
    lax = client_tls(AdminOptions(http_client_tls_insecure_skip_verify=True))()
    assert lax.verify_mode is ssl.CERT_NONE
    ca.write_text("garbage")
    with pytest.raises(ConfigError, match=str(ca)):
        client_tls(options)


async def answer(router: AdminRouter, path: str, *headers: str) -> Response:
    head = parse_head("\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *headers, "", ""]).encode())
    route, param = router.resolve("GET", path, b"")
    found = route.handler(Request(head, param, b"", str))
    assert not isinstance(found, DeferredResponse)
    return found if isinstance(found, Response) else await found


@pytest.fixture
def router() -> AdminRouter:
    async def slow(request: Request) -> Response:
        return text("slow")

    router = AdminRouter("/nsq/admin")
    router.add("GET", "/", lambda request: text("index"))
    router.add("GET", "/quick", lambda request: text("quick"))
    router.add("GET", "/slow", slow)
    return router


async def test_everything_is_under_the_base_path(router: AdminRouter) -> None:
    assert (await answer(router, "/nsq/admin")).body == b"index"
    assert (await answer(router, "/nsq/admin/")).status == 301
    assert (await answer(router, "/nsq/admin/quick")).body == b"quick"
    for outside in ("/", "/quick", "/nsq", "/nsq/adminquick"):
        assert (await answer(router, outside)).status == 404
    router = AdminRouter()
    router.add("GET", "/", lambda request: text("index"))
    assert (await answer(router, "/")).body == b"index"


async def test_every_answer_is_compressed_on_demand(router: AdminRouter) -> None:
    for path, body in (("quick", b"quick"), ("slow", b"slow"), ("no", b'{"message":"NOT_FOUND"}')):
        found = (await answer(router, f"/nsq/admin/{path}", "Accept-Encoding: gzip")).body
        assert isinstance(found, bytes)
        assert gzip.decompress(found) == body


BODY = b"abc" * 100
PLAIN = Response(200, BODY, "text/plain", (("X-Nsq-Content-Type", "nsq; version=1.0"),))


def test_answers_are_compressed_once() -> None:
    once = compressed(PLAIN, b"br, gzip, deflate")
    assert isinstance(once.body, bytes)
    assert gzip.decompress(once.body) == BODY
    assert once.headers[1:] == (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    assert PLAIN.body == BODY  # one that is answered again and again stays as it is
    assert compressed(once, b"gzip") is once
    deflated = compressed(PLAIN, b"deflate, gzip").body
    assert isinstance(deflated, bytes)
    assert zlib.decompress(deflated, -15) == BODY  # without a frame
    empty = Response()
    assert compressed(empty, b"gzip") is empty


@pytest.mark.parametrize("accepted", [b"", b"br", b"gzip;q=0", b"GZIP", b"*", b"identity"])
def test_as_it_is(accepted: bytes) -> None:
    assert compressed(PLAIN, accepted) is PLAIN


async def page_of(vitals: AdminVitals) -> Page:
    return parse("".join([samples.text() async for samples in vitals.source()]))


async def test_looks_at_the_nodes() -> None:
    clock = FakeClock()
    vitals = AdminVitals(Notifier("", 1, 5, clock), clock)
    assert not vitals.missing(), "without a history there is nothing to wait for"
    assert metrics.LOOKS.name not in await page_of(vitals)
    poller = SimpleNamespace(looks=PollCounts())
    vitals.poller = cast(Poller, poller)
    assert vitals.missing() == ["NOK - the first look at the nodes has not ended yet"]
    assert metrics.NODES.name not in await page_of(vitals)
    poller.looks = PollCounts(1, nodes=3, failures=2, took_ns=SECOND, ended_ns=clock.monotonic_ns())
    clock.advance(5 * SECOND)
    assert not vitals.missing()
    page = await page_of(vitals)
    assert page[metrics.LOOKS.name].value() == 1
    assert page[metrics.NODES.name].value() == 3
    assert page[metrics.FAILURES.name].value() == 2
    assert page[metrics.LOOK_SECONDS.name].value() == 1
    assert page[metrics.LOOK_AGE.name].value() == 5
