from __future__ import annotations

import pytest

from penstock.nsq.tools.to_http.hops import (
    Endpoint,
    Hop,
    canonical,
    failure,
    fill_in,
    header_fields,
    is_template,
)
from penstock.nsq.tools.to_http.urls import BadUrl, Unusable, parse_url

FIELDS = {"User-Agent": "me", "Content-Type": "text/plain", "X-B": "2", "Cookie": "secret"}


def lines(hop: Hop) -> list[str]:
    head, _, body = hop.encode().partition(b"\r\n\r\n")
    assert body == hop.body
    return head.decode().split("\r\n")


def test_a_post() -> None:
    hop = Endpoint("POST", "http://u:p@h:1/p", FIELDS).hop(b"one")
    assert lines(hop) == [
        "POST /p HTTP/1.1",
        "Host: h:1",
        "User-Agent: me",
        "Content-Length: 3",
        "Authorization: Basic dTpw",
        "Content-Type: text/plain",
        "Cookie: secret",
        "X-B: 2",
        "Accept-Encoding: gzip",
    ]


@pytest.mark.parametrize(
    ("template", "body", "target"),
    [
        ("http://h/g?d=%s", b"a b&c", "/g?d=a+b%26c"),
        ("http://h/g?d=%s", b"x/y?z=%", "/g?d=x%2Fy%3Fz%3D%25"),
        ("http://h/g?d=%s", "é+~*()!'\n".encode(), "/g?d=%C3%A9%2B~%2A%28%29%21%27%0A"),
        ("http://h/g?d=%s", b"\xff", "/g?d=%FF"),
        ("http://h/xx%s/x?x=%%20&x%41", b"m", "/xxm/x?x=%20&x%41"),
        ("http://h/xy%syx", b"m", "/xymyx"),
        ("http://h/%%20%s", b"m", "/%20m"),
        ("http://%s/", b"m", "/"),
        ("http://h/#%s", b"m", "/"),
    ],
)
def test_a_get(template: str, body: bytes, target: str) -> None:
    assert is_template(template)
    endpoint = Endpoint("GET", template, {"User-Agent": "me"})
    for _ in range(2):
        hop = endpoint.hop(body)
        assert lines(hop)[0] == f"GET {target} HTTP/1.1"
        assert hop.url.text == fill_in(template, target_data(endpoint, body))
    assert not any(line.startswith("Content-") for line in lines(hop))


def target_data(endpoint: Endpoint, body: bytes) -> str:
    from urllib.parse import quote_plus

    return quote_plus(body, safe="~")


def test_the_host_may_be_in_the_message() -> None:
    endpoint = Endpoint("GET", "http://%s:1/", {})
    assert endpoint.hop(b"one").url.origin.host == "one"
    assert endpoint.hop(b"two").url.origin.host == "two"


@pytest.mark.parametrize("address", ["http://h/", "http://h/%s/%s", "http://h/%%s", "%d"])
def test_what_is_no_template(address: str) -> None:
    assert not is_template(address)


def test_what_counts_as_arrived() -> None:
    post, get = Endpoint("POST", "http://h", {}), Endpoint("GET", "http://h/%s", {})
    assert [status for status in range(100, 600) if get.accepts(status)] == [200]
    assert [status for status in range(100, 600) if post.accepts(status)] == list(range(200, 300))


def test_header_fields() -> None:
    assert canonical("x-request-ID") == "X-Request-Id"
    custom = {"user-agent": "me", "HOST": "other", "content-length": "9", "x-a": "b: c"}
    assert header_fields("tool", "text/plain", custom) == {
        "User-Agent": "me",
        "Content-Type": "text/plain",
        "X-A": "b: c",
    }
    assert header_fields("tool", "", {}) == {"User-Agent": "tool"}


def moved(status: int, location: str, url: str = "http://u:p@h/a/b?c") -> Hop | None:
    return Hop("POST", parse_url(url), FIELDS, b"body").next(status, location)


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirects_that_make_a_get(status: int) -> None:
    hop = moved(status, "/d")
    assert hop is not None
    assert (hop.method, hop.url.text, hop.body) == ("GET", "http://u:p@h/d", b"")
    kept = {"User-Agent": "me", "X-B": "2", "Cookie": "secret", "Referer": "http://h/a/b?c"}
    assert hop.fields == kept


@pytest.mark.parametrize("status", [307, 308])
def test_redirects_that_repeat(status: int) -> None:
    hop = moved(status, "d")
    assert hop is not None
    assert (hop.method, hop.url.text, hop.body) == ("POST", "http://u:p@h/a/d", b"body")
    assert hop.fields["Content-Type"] == "text/plain"


def test_redirects_to_others_take_no_secrets_along() -> None:
    for location, kept in [("http://sub.h/", True), ("http://other/", False), ("//h:9/", True)]:
        hop = moved(307, location)
        assert hop is not None
        assert ("Cookie" in hop.fields) == kept
        assert not hop.url.authorization


def test_referers_do_not_leave_tls() -> None:
    hop = moved(302, "http://h/", "https://h/")
    assert hop is not None
    assert "Referer" not in hop.fields
    hop = moved(302, "https://h/", "https://h/")
    assert hop is not None
    assert hop.fields["Referer"] == "https://h/"


def test_no_redirect() -> None:
    assert moved(302, "") is None
    assert moved(304, "/x") is None
    assert moved(200, "/x") is None
    with pytest.raises(BadUrl):
        moved(302, "http://h:x/")
    with pytest.raises(Unusable):
        moved(302, "ftp://h/")


def test_how_failures_are_told() -> None:
    assert failure("POST", "http://h/", "EOF") == 'Post "http://h/": EOF'
