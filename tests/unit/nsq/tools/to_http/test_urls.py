from __future__ import annotations

import pytest

from penstock.net.http.client.link import Origin
from penstock.nsq.tools.to_http.urls import BadUrl, Unusable, parse_url


@pytest.mark.parametrize(
    ("text", "origin", "host", "target"),
    [
        ("http://h:1/p?q=1", Origin(False, "h", 1), "h:1", "/p?q=1"),
        ("http://h", Origin(False, "h", 80), "h", "/"),
        ("HTTPS://h?x", Origin(True, "h", 443), "h", "/?x"),
        ("http://h:/a#b", Origin(False, "h", 80), "h", "/a"),
        ("http://[::1]:2/", Origin(False, "::1", 2), "[::1]:2", "/"),
        ("http://h/a b/é?c d&e=é", Origin(False, "h", 80), "h", "/a%20b/%C3%A9?c%20d&e=%C3%A9"),
        ("http://h/%20%41?%zz", Origin(False, "h", 80), "h", "/%20%41?%zz"),
        ("http://u:p@h/", Origin(False, "h", 80), "h", "/"),
        ("http://h/?", Origin(False, "h", 80), "h", "/?"),
    ],
)
def test_urls(text: str, origin: Origin, host: str, target: str) -> None:
    url = parse_url(text)
    assert (url.origin, url.host, url.target) == (origin, host, target)


def test_users() -> None:
    url = parse_url("http://us%20er:p%40ss@h/")
    assert url.authorization == "Basic dXMgZXI6cEBzcw=="
    assert url.shown == "http://us%20er:***@h/"
    assert parse_url("http://u@h/").shown == "http://u@h/"
    assert parse_url("http://h/a:b@c").shown == "http://h/a:b@c"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("127.0.0.1:80/p", "first path segment in URL cannot contain colon"),
        (":x", "missing protocol scheme"),
        ("http://h:x/", 'invalid port ":x" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://h/%zz", 'invalid URL escape "%zz"'),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://h/\n", "net/url: invalid control character in URL"),
    ],
)
def test_what_is_no_url(text: str, reason: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse_url(text)
    shown = text.replace("\n", "\\n")
    assert str(caught.value) == f'parse "{shown}": {reason}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nosuch://x/", 'unsupported protocol scheme "nosuch"'),
        ("x/y", 'unsupported protocol scheme ""'),
        ("", 'unsupported protocol scheme ""'),
        ("localhost:80", 'unsupported protocol scheme "localhost"'),
        ("http:///p", "http: no Host in request URL"),
        ("http:x", "http: no Host in request URL"),
        ("http://h:99999/", "dial tcp: address 99999: invalid port"),
    ],
)
def test_what_cannot_be_used(text: str, reason: str) -> None:
    with pytest.raises(Unusable) as caught:
        parse_url(text)
    assert str(caught.value) == reason
