"""Requests of browsers that are refused because of their headers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.settings.web_options import WebOptions
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.head import Head
from penstock.net.http.server.message import Bare
from penstock.net.http.server.reader import RequestReader
from penstock.net.http.server.service import Response, Router, text

HOST = {"host": "nsqadmin.test:4171"}
OWN, OTHER = "http://nsqadmin.test:4171", "http://evil.test"
PROXY = "10.0.0.1:99"


def refusal(
    guard: Guard | None = None,
    method: str = "POST",
    remote: str = PROXY,
    is_safe: bool = True,
    **headers: Any,
) -> str:
    """The refusal of a request with these headers (`_` stands for `-`) and a default Host."""
    named = {**HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = {name.encode(): value.encode() for name, value in named.items()}
    head = Head(method, b"/topic/delete?topic=t", raw, "1.1", True)
    return (guard or Guard()).refusal(head, lambda: remote, is_safe=is_safe)


@pytest.mark.parametrize(
    "headers",
    [
        {},  # curl, Go's tools, nsqjs
        {"user_agent": "Go-http-client/1.1", "x_forwarded_host": "ops.test"},
        {"sec_fetch_site": "same-origin", "origin": "https://ops.test"},  # as the browser sees it
        {"sec_fetch_site": "none"},
        {"origin": OWN},
        {"origin": "HTTP://NSQadmin.test:4171"},
        {"origin": "http://ops.test", "host": "ops.test:80"},
        {"origin": "https://ops.test", "host": "ops.test"},
        {"origin": "https://ops.test:443", "host": "ops.test"},
        {"origin": "http://[::1]:4171", "host": "[::1]:4171"},
    ],
)
def test_programs_and_own_pages_go_on_as_ever(headers: dict[str, Any]) -> None:
    assert refusal(**headers) == ""


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"sec_fetch_site": "cross-site", "origin": OTHER}, "Sec-Fetch-Site: cross-site"),
        ({"sec_fetch_site": "cross-site"}, "Sec-Fetch-Site: cross-site"),
        # The same host, but another port: browsers call that the same site.
        ({"sec_fetch_site": "same-site", "origin": "http://nsqadmin.test:8000"}, "same-site"),
        ({"sec_fetch_site": "same-site", "origin": OWN}, "same-site"),
        (
            {"origin": OTHER},
            f"Origin: {OTHER} is another site's (see --http-allowed-origin={OTHER})",
        ),
        ({"origin": "http://nsqadmin.test:8000"}, "Origin: http://nsqadmin.test:8000"),
        ({"origin": "http://nsqadmin.test"}, "Origin"),
        ({"origin": "null"}, "Origin: null"),
        ({"origin": ""}, "Origin"),
        ({"origin": "nsqadmin.test:4171"}, "Origin"),
        ({"origin": "http://nsqadmin.test:4171.evil.test"}, "Origin"),
        ({"origin": "http://", "host": ""}, "Origin"),
        ({"origin": OTHER, "x_forwarded_host": "evil.test"}, "Origin"),
    ],
)
def test_pages_of_other_sites_change_nothing(headers: dict[str, Any], named: str) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert named in refusal(method=method, **headers)
    for method in ("GET", "HEAD", "OPTIONS"):
        assert refusal(method=method, **headers) == ""
        assert named in refusal(method=method, is_safe=False, **headers)


def test_other_sites_may_be_allowed() -> None:
    guard = Guard(origins=("http://Dashboard.test:8000", "chrome-extension://abc"))
    for origin in ("http://dashboard.test:8000", "chrome-extension://abc"):
        assert refusal(guard, origin=origin, sec_fetch_site="cross-site") == ""
        assert refusal(guard, origin=origin) == ""
    assert refusal(guard, origin="http://dashboard.test:8001")
    assert refusal(guard, sec_fetch_site="cross-site")
    others: list[dict[str, Any]] = [
        {"origin": OTHER}, {"sec_fetch_site": "cross-site"}, {"origin": "null"}
    ]  # fmt: skip
    for headers in others:
        assert refusal(Guard(origins=("*",)), **headers) == ""


def test_the_host_that_a_proxy_was_asked_for() -> None:
    guard = Guard(is_proxy=lambda remote: remote == PROXY)
    asked: dict[str, Any] = {"origin": "http://ops.test", "x_forwarded_host": "ops.test"}
    assert refusal(guard, **asked) == ""
    assert refusal(guard, **asked, remote="10.0.0.2:99")
    assert refusal(guard, origin="http://ops.test", x_forwarded_host="ops.test:80, inner") == ""
    assert refusal(guard, origin=OTHER, x_forwarded_host="ops.test, evil.test")


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost:4171", True), ("LOCALHOST", True), ("localhost.:1", True), ("", True),
        ("127.0.0.1:4171", True), ("10.1.2.3", True), ("[::1]:4171", True),
        ("ops.test:443", True), ("ops.test", False), ("ops.test:444", False),
        ("evil.test:4171", False), ("localhost.evil.test", False), ("127.0.0.1.evil.test", False),
        ("own.test:4151", True),
    ],
)  # fmt: skip
def test_hosts_in_a_list(host: str, is_allowed: bool) -> None:
    options = WebOptions(http_allowed_hosts=("localhost", "ops.test:443"))
    guard = Guard.of(options, "own.test")
    for method in ("GET", "POST"):
        said = refusal(guard, method, host=host)
        assert said == "" if is_allowed else f"Host: {host} is not allowed" in said
    assert refusal(host=host, method="GET") == ""  # without a list


def test_long_and_strange_headers_are_shown_in_part() -> None:
    said = refusal(origin="http://é" + "x" * 10_000)
    assert len(said) < 1000
    assert said.isprintable()


async def test_what_one_proxy_may_say_nobody_else_may() -> None:
    """A remembered head of a trusted proxy must not let in the same bytes of another client."""
    router = Router(guard=Guard(is_proxy=lambda remote: remote == PROXY))
    router.add("POST", "/x", lambda request: text(""))
    lines = ("POST /x HTTP/1.1", "Host: h", "Origin: http://o", "X-Forwarded-Host: o")
    raw = "\r\n".join([*lines, "Content-Length: 0", "", ""]).encode()
    for remote, status in ((PROXY, 200), ("10.0.0.2:1", 403)):
        reader = RequestReader(router, lambda remote=remote: remote)
        reader.feed(raw)
        (event,) = reader.events
        assert not isinstance(event, Bare)
        response = event[1].handler(event[0])
        assert isinstance(response, Response)
        assert response.status == status
