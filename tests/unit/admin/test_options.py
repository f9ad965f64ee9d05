from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.admin.options import AdminOptions, checked, clean_base_path, resolve
from penstock.core.errors import ConfigError
from penstock.core.settings.options import load
from penstock.core.units import SECOND

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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "--nsqd-http-address or --lookupd-http-address required"),
        ({"nsqd_http_addresses": NODE, "lookupd_http_addresses": NODE},
         "use --nsqd-http-address or --lookupd-http-address not both"),
        ({"nsqd_http_addresses": NODE, "http_client_tls_key": "k"},
         "--http-client-tls-cert must be specified with --http-client-tls-key"),
        ({"nsqd_http_addresses": ("127.0.0.1",)}, "failed to resolve --nsqd-http-address "
         "(127.0.0.1) - address 127.0.0.1: missing port in address"),
        ({"lookupd_http_addresses": ("http://h:1",)}, "failed to resolve --lookupd-http-address "
         "(http://h:1) - address http://h:1: too many colons in address"),
        ({"nsqd_http_addresses": NODE, "history_interval": SECOND // 2},
         "--history-interval must be 1s at least, or 0"),
    ],
)  # fmt: skip
def test_what_cannot_be(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        checked(AdminOptions(**options))
    assert str(raised.value) == text


def test_over_rocketmq_alone_there_is_no_history() -> None:
    options = checked(AdminOptions(rocketmq_namesrv_addresses=("127.0.0.1:9876",)))
    assert (options.has_nodes, options.watch_s) == (False, 0)
    options = checked(AdminOptions(nsqd_http_addresses=NODE))
    assert (options.has_nodes, options.watch_s) == (True, 10)


@pytest.mark.parametrize("path", ["/", "", "nsq/admin/", "/nsq//admin", "//nsq/x/../admin"])
def test_base_paths(path: str) -> None:
    assert clean_base_path(path) == ("/nsq/admin" if "nsq" in path else "/")


def test_addresses() -> None:
    for good in ("127.0.0.1:4151", "[::1]:4151", ":4151", "127.0.0.1:http"):
        resolve(good)
    for bad, text in (
        ("127.0.0.1:x", "lookup tcp/x: unknown port"),
        ("127.0.0.1:99999", "address 99999: invalid port"),
        ("::1:1", "address ::1:1: too many colons in address"),
    ):
        with pytest.raises(ValueError) as raised:
            resolve(bad)
        assert str(raised.value) == text


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
    node = ("127.0.0.1:1",)
    checked(AdminOptions(nsqd_http_addresses=node, graphite_url="/graphite"))
    assert caplog.messages == []
    checked(AdminOptions(nsqd_http_addresses=node, graphite_url="notaurl"))
    assert caplog.messages == [
        'failed to parse --graphite-url (notaurl) - parse "notaurl": give http://HOST[:PORT]'
    ]
    for url in ("/graphite", ""):
        with pytest.raises(ConfigError, match="give http://HOST"):
            checked(AdminOptions(nsqd_http_addresses=node, graphite_url=url, proxy_graphite=True))
