"""Requests to daemons, without I/O."""

from __future__ import annotations

import pytest

from penstock.cluster.exchange import (
    Endpoint,
    code_of,
    escaped,
    https_port,
    of_lookupd,
    status_text,
    target,
)
from penstock.net.address import join_host_port


def test_a_status_with_and_without_a_name() -> None:
    assert status_text(404) == "404 Not Found"
    assert status_text(599) == "599"


def test_names_in_queries() -> None:
    assert escaped("t#ephemeral") == "t%23ephemeral"
    assert escaped("a b&c") == "a+b%26c"
    assert escaped("\udcff") == "%FF"


def test_targets() -> None:
    assert target("/p", topic="a b#", from_=3, limit=None) == "/p?topic=a+b%23&from=3"
    assert target("/p", topic="%DLQ%g", at="\udcff") == "/p?topic=%25DLQ%25g&at=%FF"


@pytest.mark.parametrize(
    ("address", "url", "where"),
    [
        ("h:4151", "http://h:4151/p", ("h", 4151)),
        (":4151", "http://:4151/p", ("localhost", 4151)),
        ("[::1]:1", "http://[::1]:1/p", ("::1", 1)),
        ("h:http", "http://h:http/p", ("h", 80)),
        ("https://h:4152/", "https://h:4152/p", ("h", 4152)),
        ("http://h/nsq/", "http://h:80/nsq/p", ("h", 80)),
        ("https://[::1]", "https://[::1]:443/p", ("::1", 443)),
    ],
)
def test_endpoints(address: str, url: str, where: tuple[str, int]) -> None:
    endpoint = Endpoint.of(address)
    assert endpoint.url("/p") == url
    assert endpoint.host_and_port() == where
    assert endpoint.secure(9).url("") == f"https://{join_host_port(where[0], 9)}"


@pytest.mark.parametrize("address", ["http://me:s%40cret@h:1/", "me:s%40cret@h:1"])
def test_a_password_is_sent_and_not_shown(address: str) -> None:
    endpoint = Endpoint.of(address)
    assert endpoint.url("/p") == "http://h:1/p"
    assert endpoint.headers == {"Authorization": "Basic bWU6c0BjcmV0"}
    assert endpoint.secure(2).headers == endpoint.headers
    assert Endpoint.of("h:1").headers == {}


def test_the_port_that_a_refusal_names() -> None:
    assert https_port(403, b'{"message":"TLS_REQUIRED","https_port":4152}') == 4152
    for status, body in (
        (200, b'{"https_port":4152}'),
        (403, b'{"https_port":99999}'),
        (403, b'{"https_port":"4152"}'),
        (403, b"[" * 100_000),
        (403, b"[1]"),
        (403, b""),
    ):
        assert https_port(status, body) == 0
    assert code_of(b'{"message":7}') == ""


def test_an_nsqlookupd_is_asked_over_plain_http_unless_its_url_says_otherwise() -> None:
    assert of_lookupd("h:4161") == "http://h:4161"
    assert of_lookupd("https://h:1") == "https://h:1"
